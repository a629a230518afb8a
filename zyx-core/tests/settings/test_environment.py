"""Environment variables, and which source wins."""

import json
from pathlib import Path

import msgspec
import pytest

from zyx.errors import SettingsError
from zyx.settings import variables
from zyx.settings.check import fields_of, is_record
from zyx.settings.debug import Debug
from zyx.settings.load import load_settings
from zyx.settings.record import Settings

NO_FILE = Path("/nonexistent/config.json")


def load(environ: dict[str, str]) -> Settings:
    return load_settings(environ=environ, file=NO_FILE)


def keys_of(record: type, prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, wanted in fields_of(record).items():
        keys += keys_of(wanted, f"{prefix}{name}.") if is_record(wanted) else [prefix + name]
    return keys


def test_every_key_has_one_variable() -> None:
    assert sorted(variables.KEY_OF.values()) == sorted(set(keys_of(Settings)) - {"backends"})


def test_the_readme_lists_every_key_with_its_variable_and_default() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for variable, key in variables.KEY_OF.items():
        assert f"| `{key}` | `{variable}` |" in text
    defaults = msgspec.to_builtins(Settings())
    for key in (
        "autotune.enabled",
        "autotune.time_budget_s",
        "autotune.save_to_disk",
        "autotune.seed",
        "autotune.n_launches",
        "autotune.n_seeds",
        "autotune.n_added_per_step",
        "autotune.n_removed_per_step",
        "autotune.n_total_opts",
        "autotune.library_kernels",
        "cache.enabled",
        "cache.max_bytes",
    ):
        section, leaf = key.split(".")
        row = next(line for line in text.splitlines() if line.startswith(f"| `{key}` |"))
        assert row.endswith(f"| {str(defaults[section][leaf]).replace('True', 'true').replace('False', 'false')} |")


def test_values_are_parsed_by_the_type_of_their_key() -> None:
    settings = load(
        {
            "ZYX_DEVICE": "c:0",
            "ZYX_DEVICE_ORDER": "cuda, c",
            "ZYX_BACKENDS": "c",
            "ZYX_DEBUG": "source,launches",
            "ZYX_AUTOTUNE": "on",
            "ZYX_AUTOTUNE_LIBRARY_KERNELS": "off",
            "ZYX_CACHE": "0",
            "ZYX_CACHE_MAX_BYTES": "25",
            "ZYX_NUM_THREADS": "3",
        }
    )
    assert settings.devices.default == "c:0"
    assert settings.devices.order == ("cuda", "c")
    assert settings.devices.backends == ("c",)
    assert settings.debug == Debug.SOURCE | Debug.LAUNCHES
    assert settings.autotune.enabled is True
    assert settings.autotune.library_kernels == "off"
    assert settings.cache.enabled is False
    assert settings.cache.max_bytes == 25
    assert settings.threads == 3
    assert settings.sources.origins["devices.default"] == "ZYX_DEVICE"


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "on", "Yes"])
def test_a_switch_is_turned_on_by_the_usual_words(text: str) -> None:
    assert load({"ZYX_AUTOTUNE": text}).autotune.enabled is True


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    assert load({"ZYX_DEVICE": "", "ZYX_DEBUG": "", "ZYX_NUM_THREADS": ""}).sources.origins == {}


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        (
            "ZYX_NUM_THREADS",
            "many",
            "key threads: 'many' is not accepted; it takes a whole number (at least 1) or null",
        ),
        ("ZYX_NUM_THREADS", "-1", "key threads: '-1' is not accepted"),
        ("ZYX_AUTOTUNE", "maybe", "key autotune.enabled: 'maybe' is not accepted; it takes true or false"),
        ("ZYX_CACHE_MAX_BYTES", "nan", "it takes a whole number (at least 0)"),
        ("ZYX_DEBUG", "0x10", "there is no subject '0x10'"),
        ("ZYX_DEBUG", "2048", "2048 is out of range"),
        ("ZYX_AUTOTUNE_LIBRARY_KERNELS", "always", "'measure', 'off', 'prefer'"),
    ],
)
def test_a_wrong_value_is_an_error_with_variable_key_reason_and_what_is_accepted(
    variable: str, value: str, reason: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        load({variable: value})
    assert str(raised.value).startswith(f"{variable}: key ")
    assert reason in str(raised.value)


def test_code_beats_the_environment_which_beats_the_file_which_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps({"autotune": {"n_launches": 1, "enabled": True}, "cache": {"max_bytes": 1}}), encoding="utf-8"
    )
    environ = {"ZYX_AUTOTUNE_N_LAUNCHES": "2", "ZYX_CACHE_MAX_BYTES": "2"}
    settings = load_settings({"autotune": {"n_launches": 3}}, environ, file)
    assert settings.autotune.n_launches == 3
    assert settings.cache.max_bytes == 2
    assert settings.autotune.enabled is True
    assert settings.autotune.library_kernels == Settings().autotune.library_kernels
    assert settings.sources.origins == {
        "autotune.n_launches": "code",
        "autotune.enabled": str(file),
        "cache.max_bytes": "ZYX_CACHE_MAX_BYTES",
    }


def test_complete_settings_are_taken_as_they_are() -> None:
    given = Settings(threads=5)
    assert load_settings(given, {"ZYX_NUM_THREADS": "2"}, NO_FILE) is given


def test_wrong_values_in_code_are_errors_too() -> None:
    with pytest.raises(SettingsError, match="code: key threads: '5' is not accepted"):
        load_settings(Settings(threads="5"), {}, NO_FILE)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="code: key thread: there is no such key; did you mean 'threads'"):
        load_settings({"thread": 5}, {}, NO_FILE)


def test_variables_of_others_are_left_alone_and_those_of_backends_are_kept() -> None:
    settings = load({"ZYX_CUDA_DEVICE_IDS": "0", "ZYX_REQUIRE_DEVICES": "c", "PATH": "/bin"})
    assert settings.sources.variables == {"ZYX_CUDA_DEVICE_IDS": "0"}
