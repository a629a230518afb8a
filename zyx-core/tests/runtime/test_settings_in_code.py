"""`zyx.settings`: what may change when, and for how long."""

import threading

import pytest

import zyx
from zyx.errors import SettingsError
from zyx.runtime.runtime import Runtime, use
from zyx.settings.record import Settings


@pytest.fixture
def fresh():
    runtime = Runtime(Settings())
    with use(runtime):
        yield runtime
    runtime.close()


def test_without_arguments_it_returns_what_is_in_force(fresh):
    assert zyx.settings() == Settings()


def test_keys_are_those_of_the_table_or_nested_as_in_the_file(fresh):
    zyx.settings({"autotune.enabled": True}, autotune={"n_launches": 3})
    assert zyx.settings().autotune.enabled
    assert zyx.settings().autotune.n_launches == 3
    assert zyx.settings().sources.origins == {"autotune.enabled": "code", "autotune.n_launches": "code"}


def test_a_block_puts_back_what_was_before(fresh):
    with zyx.settings(autotune={"enabled": True}) as now:
        assert now.autotune.enabled
        with zyx.settings({"autotune.enabled": False}):
            assert not zyx.settings().autotune.enabled
        assert zyx.settings().autotune.enabled
    assert zyx.settings() == Settings()


def test_it_holds_for_all_threads(fresh):
    seen = []

    def look():
        with use(fresh):
            seen.append(zyx.settings().autotune.n_launches)

    with zyx.settings(autotune={"n_launches": 7}):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [7]


def test_code_beats_the_environment(monkeypatch):
    monkeypatch.setenv("ZYX_AUTOTUNE_N_LAUNCHES", "5")
    runtime = Runtime()
    with use(runtime):
        assert zyx.settings().autotune.n_launches == 5
        with zyx.settings(autotune={"n_launches": 6}):
            assert zyx.settings().autotune.n_launches == 6
            assert zyx.settings().sources.origins["autotune.n_launches"] == "code"
        assert zyx.settings().sources.origins["autotune.n_launches"] == "ZYX_AUTOTUNE_N_LAUNCHES"
    runtime.close()


@pytest.mark.parametrize(
    "given",
    [
        {"threads": 2},
        {"cache.enabled": False},
        {"cache": {"max_bytes": 5}},
        {"devices.backends": ["interpreter"]},
        {"backends.dummy.enabled": True},
    ],
)
def test_what_devices_are_opened_with_can_change_until_one_is_open(fresh, given):
    zyx.settings(given)
    changed = zyx.settings()
    assert changed != Settings()
    with pytest.raises(SettingsError, match="cannot be put back at the end of a with block"), zyx.settings(threads=3):
        pass
    assert zyx.settings() == changed
    zyx.zeros(1, device="interpreter").realize()
    with pytest.raises(
        SettingsError, match=r"threads: devices are opened with it, and .*interpreter:0.* are open already"
    ):
        zyx.settings(threads=3)
    zyx.settings(given)  # is what it is already
    assert zyx.settings() == changed


def test_a_backend_may_be_switched_on_before_the_first_device(fresh):
    zyx.settings({"backends.dummy.enabled": True})
    assert zyx.zeros(1, device="dummy").device == "dummy:0"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"thread": 2}, "code: key thread: there is no such key; did you mean 'threads'"),
        ({"threads": 0}, "code: key threads: 0 is not accepted"),
        ({"debug": "shedule"}, "code: key debug: there is no subject 'shedule'"),
        ({"cache": 3, "cache.enabled": True}, "code: key cache.enabled: cache is given the value 3, too"),
    ],
)
def test_wrong_keys_and_values_are_errors_and_change_nothing(fresh, given, text):
    with pytest.raises(SettingsError, match=text):
        zyx.settings(given)
    assert zyx.settings() == Settings()


def test_the_package_of_settings_can_be_imported_beside_the_function():
    import zyx.settings.record
    from zyx.settings import variables

    assert callable(zyx.settings)
    assert variables.PREFIX == "ZYX_"
