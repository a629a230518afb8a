"""Loading and opening: which packages are taken, and what is kept about the others."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zyx.backend import API_VERSION
from zyx.builtin.dummy import DummyPool
from zyx.errors import SettingsError
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.plugins.state import KNOWN, BackendReport, BackendState, BackendStep
from zyx.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    PackageMaker = Callable[..., Path]

MAJOR, MINOR = API_VERSION
NO_FILE = Path("/nonexistent/config.json")


@dataclass
class Broken:
    """A package with a fault: changes to a good one, or code of its own, and what must be known about it afterwards."""

    name: str
    state: BackendState
    step: BackendStep
    reason: str
    replace: dict[str, str] = field(default_factory=dict)
    code: str | None = None


DEVICES = 'return [DummyDevice("{name}:0", pools["{name} memory"])]'
POOLS = 'return [DummyPool("{name} memory")]'
VERSION = '"1.5", API_VERSION'


def broken_import(name: str, code: str, reason: str) -> Broken:
    return Broken(name, BackendState.IMPORT_FAILED, BackendStep.IMPORT, reason, code=code)


def wrong_version(name: str, version: str, reason: str) -> Broken:
    return Broken(name, BackendState.WRONG_API_VERSION, BackendStep.INFO, reason, {VERSION: f'"1.5", {version}'})


def invalid(name: str, step: BackendStep, old: str, new: str, reason: str) -> Broken:
    return Broken(name, BackendState.INVALID, step, reason, {old: new})


def raising(name: str, old: str, error: str, state: BackendState, reason: str) -> Broken:
    step = BackendStep.DEVICES if old == DEVICES else BackendStep.POOLS
    return Broken(name, state, step, reason, {old: f"from zyx import errors; raise {error}"})


HIDDEN = (
    "from zyx.errors import DriverNotFoundError\n    try:\n        import zyx.no_such_module\n"
    "    except ImportError as error:\n        raise DriverNotFoundError('no driver') from error"
)

BROKEN = [
    broken_import("missing", "import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module"),
    broken_import("syntax", "def f(:\n", "SyntaxError: invalid syntax (zyx_toy_syntax.py, line 1)"),
    broken_import("crash", "x = 1\n1 / 0", "zyx_toy_crash.py:2)"),
    broken_import("drops", "from zyx.backend import NoSuchName", "cannot import name 'NoSuchName' from 'zyx.backend'"),
    wrong_version("older", f"({MAJOR - 1}, 9)", f"it is written for version {MAJOR - 1}.9 of the backend interface"),
    wrong_version("newer", f"({MAJOR + 1}, 0)", f"it is written for version {MAJOR + 1}.0 of the backend interface"),
    wrong_version("later", f"({MAJOR}, {MINOR + 1})", f"and zyx-core has {MAJOR}.{MINOR}"),
    invalid("notversion", BackendStep.INFO, VERSION, '"1.5", "1.0"', "its API version is '1.0', not two numbers"),
    invalid("othername", BackendStep.INFO, '"{name}", "1.5"', '"elsewhere", "1.5"', "zyx_backend_info says 'elsewhere"),
    invalid("noinfo", BackendStep.INFO, "def zyx_backend_info", "def other", "zyx_backend_info is missing"),
    invalid("notinfo", BackendStep.INFO, "return BackendInfo(", "return (", "zyx_backend_info returns tuple ('notinfo"),
    invalid("noneinfo", BackendStep.INFO, "return BackendInfo(", "(", "zyx_backend_info is missing, or returns None"),
    invalid("misspelt", BackendStep.CHECK, "def zyx_devices", "def zyx_device", "no hook 'zyx_device'; did you mean"),
    invalid("unmarked", BackendStep.CHECK, "@hookimpl\ndef zyx_dev", "def zyx_dev", "zyx_devices is not marked with @"),
    invalid("signature", BackendStep.CHECK, "devices(pools)", "devices(pool)", "{'pool'} are declared in the hookimpl"),
    invalid("notlist", BackendStep.DEVICES, DEVICES, "return 42", "zyx_devices returns int 42, not a list or tuple"),
    invalid("notdevice", BackendStep.DEVICES, DEVICES, "return ['gpu']", "is not a Device: ['gpu']"),
    invalid("notpool", BackendStep.POOLS, POOLS, "return [None]", "is not a MemoryPool: [None]"),
    invalid("takenpool", BackendStep.POOLS, POOLS, "return [DummyPool('host')]", "a pool 'host', and there is one"),
    invalid("badname", BackendStep.DEVICES, '"{name}:0"', '"gpu"', "device number 0 is called 'gpu', not badname:0"),
    invalid("hostliar", BackendStep.DEVICES, '"a toy"', '"a toy", works_on_host_memory=True', "works_on_host_memory"),
    invalid("strangepool", BackendStep.DEVICES, 'pools["{name} memory"]', 'DummyPool("x")', "on none of the pools"),
    raising("nodriver", POOLS, "errors.DriverNotFoundError('no libtoy.so')", BackendState.NO_DRIVER, "no libtoy.so"),
    raising("nopython", POOLS, "ImportError('no pytoy')", BackendState.NO_DRIVER, "no pytoy"),
    raising("oldcore", POOLS, "ImportError('gone', name='zyx.render')", BackendState.WRONG_API_VERSION, "gone"),
    raising("owncore", DEVICES, "ImportError('gone', name='zyx')", BackendState.WRONG_API_VERSION, "ImportError: gone"),
    raising("ownmodule", POOLS, "ImportError('gone', name='zyx_toy_ownmodule.start')", BackendState.FAILED, "gone"),
    Broken("hidden", BackendState.WRONG_API_VERSION, BackendStep.POOLS, "no driver", {POOLS: HIDDEN}),
    raising("refused", POOLS, "errors.InitializationError('code 35')", BackendState.DRIVER_REFUSED, "code 35"),
    raising("raises", DEVICES, "RuntimeError('oops')", BackendState.FAILED, "RuntimeError: oops ("),
    raising("nodevice", DEVICES, "errors.NoDeviceError('no card')", BackendState.NO_DEVICE, "no card"),
    Broken("empty", BackendState.NO_DEVICE, BackendStep.DEVICES, "its driver works, and", {DEVICES: "return []"}),
]  # fmt: skip


def opened_with(**given: object) -> dict[str, BackendReport]:
    """Load and open everything with these settings; return the reports by name."""
    opened = open_backends(PluginManager(load_settings(given, {}, NO_FILE)))
    reports = {report.name: report for report in opened.reports}
    opened.close()
    return reports


def install(package: PackageMaker, broken: Broken) -> None:
    replace = {old.replace("{name}", broken.name): new for old, new in broken.replace.items()}
    if broken.code is None:
        package(broken.name, replace=replace)
    else:
        package(broken.name, broken.code)


def test_a_package_with_a_backend_is_found_and_opened(package: PackageMaker) -> None:
    package("good")
    report = opened_with()["good"]
    assert report == BackendReport(
        "good",
        BackendState.READY,
        BackendStep.USE,
        package="zyx-backend-good",
        version="1.5",
        summary="a toy",
        devices=("good:0",),
    )


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_broken_package_is_reported_with_step_and_reason(package: PackageMaker, broken: Broken) -> None:
    install(package, broken)
    report = opened_with()[broken.name]
    assert (report.state, report.step) == (broken.state, broken.step)
    assert broken.reason.replace("{name}", broken.name) in report.reason
    assert "\n" not in report.reason
    assert report.error is not None
    assert report.devices == ()


def test_many_broken_packages_disturb_neither_each_other_nor_a_good_one(package: PackageMaker) -> None:
    for broken in BROKEN:
        install(package, broken)
    package("agood")
    package("zgood")
    reports = opened_with()
    assert {broken.name: reports[broken.name].state for broken in BROKEN} == {b.name: b.state for b in BROKEN}
    for good in ("agood", "zgood", "interpreter", "host"):
        assert reports[good].state is BackendState.READY


def test_the_command_line_shows_every_name_with_its_state_and_reason(package: PackageMaker, tmp_path: Path) -> None:
    package("good")
    for broken in BROKEN:
        install(package, broken)
    environ = {"PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-m", "zyx", "devices"], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert "good:0" in lines
    for broken in BROKEN:
        assert broken.state.value in lines[broken.name]
        assert broken.reason.replace("{name}", broken.name) in lines[broken.name]


def test_an_old_backend_is_to_be_upgraded_and_for_a_new_one_core_is(package: PackageMaker) -> None:
    for broken in BROKEN:
        if broken.state is BackendState.WRONG_API_VERSION:
            install(package, broken)
    reports = opened_with()
    assert reports["older"].advice == "pip install --upgrade zyx-backend-older"
    assert reports["newer"].advice == reports["later"].advice == "pip install --upgrade zyx-core"
    for name in ("oldcore", "owncore", "hidden"):
        assert reports[name].advice == f"pip install --upgrade zyx-core zyx-backend-{name}"


def test_two_packages_of_one_name_are_both_named_and_neither_is_used(package: PackageMaker) -> None:
    package("toy", distribution="ada-toy", module="zyx_toy_ada")
    package("toy", distribution="bob-toy", module="zyx_toy_bob")
    package("good")
    reports = opened_with()
    assert reports["toy"].state is BackendState.INVALID
    assert "ada-toy 1.5 (zyx_toy_ada) and bob-toy 1.5 (zyx_toy_bob)" in reports["toy"].reason
    assert reports["toy"].advice == "uninstall all but one of them"
    assert not {"zyx_toy_ada", "zyx_toy_bob"} & set(sys.modules)
    assert reports["good"].state is BackendState.READY


def test_what_is_built_in_keeps_its_name(package: PackageMaker) -> None:
    package("interpreter", distribution="eve-interpreter")
    reports = opened_with()
    assert reports["interpreter"].state is BackendState.READY
    assert reports["interpreter"].package == "zyx-core"
    thief = reports["interpreter (eve-interpreter)"]
    assert thief.state is BackendState.INVALID
    assert "eve-interpreter 1.5 (zyx_toy_interpreter) declares backend 'interpreter', which is built in" in thief.reason


def test_a_name_that_is_no_word_is_refused(package: PackageMaker) -> None:
    package("My-Toy", module="zyx_toy_mine")
    report = opened_with()["My-Toy"]
    assert report.state is BackendState.INVALID
    assert "lower-case letters" in report.reason


def test_damaged_metadata_of_any_package_is_remembered_and_disturbs_nothing(package: PackageMaker) -> None:
    folder = package("good")
    damaged = folder / "other_thing-1.0.dist-info"
    damaged.mkdir()
    (damaged / "entry_points.txt").write_bytes(b"[zyx.backends]\nbad = \xff\xfe")
    manager = PluginManager(load_settings({}, {}, NO_FILE))
    assert {report.name for report in manager.backends()} >= {"good"}
    assert any("UnicodeDecodeError" in problem and str(folder) in problem for problem in manager.damaged_packages)


def test_of_two_copies_of_a_distribution_the_first_on_the_path_counts(
    package: PackageMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = package("good")
    copy = tmp_path / "copy"
    copy.mkdir()
    info = next(folder.glob("*.dist-info"))
    (copy / info.name).mkdir()
    for file in info.iterdir():
        (copy / info.name / file.name).write_bytes(file.read_bytes())
    monkeypatch.syspath_prepend(copy)
    assert [entry.name for entry in installed()[0] if entry.name == "good"] == ["good"]


def test_loading_imports_modules_and_calls_no_hook_that_opens(package: PackageMaker) -> None:
    package("raises", replace={DEVICES.replace("{name}", "raises"): "raise RuntimeError"})
    manager = PluginManager(load_settings({}, {}, NO_FILE))
    report = next(report for report in manager.backends() if report.name == "raises")
    assert report.state is BackendState.INSTALLED
    assert "zyx_toy_raises" in sys.modules


def test_a_backend_that_is_switched_off_is_not_even_imported(package: PackageMaker) -> None:
    package("off", "raise KeyboardInterrupt")
    report = opened_with(backends={"off": {"enabled": False}})["off"]
    assert report.state is BackendState.SWITCHED_OFF
    assert report.reason == "backends.off.enabled is false"
    report = opened_with(devices={"backends": ["interpreter"]})["off"]
    assert report.state is BackendState.SWITCHED_OFF
    assert report.reason == "code asks for interpreter only"
    assert "zyx_toy_off" not in sys.modules


def test_a_backend_that_is_off_by_default_is_opened_when_it_is_asked_for(package: PackageMaker) -> None:
    package("shy", replace={'"a toy"': '"a toy", enabled_by_default=False'})
    assert opened_with()["shy"].state is BackendState.SWITCHED_OFF
    assert opened_with()["shy"].advice == "set ZYX_SHY_ENABLED=1"
    assert opened_with(backends={"shy": {"enabled": True}})["shy"].state is BackendState.READY
    assert opened_with(devices={"backends": ["shy"]})["shy"].state is BackendState.READY


def test_an_interrupt_passes_through_import_and_hooks(package: PackageMaker) -> None:
    package("stop", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        opened_with()
    package("halt", replace={DEVICES.replace("{name}", "halt"): "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        opened_with(backends={"stop": {"enabled": False}})


def test_known_backends_that_are_not_installed_are_listed_with_the_line_that_installs_them() -> None:
    reports = {report.name: report for report in PluginManager(load_settings({}, {}, NO_FILE), []).backends()}
    for name in KNOWN:
        assert reports[name].state is BackendState.NOT_INSTALLED
        assert reports[name].advice == f"pip install zyx-backend-{name}"


@pytest.mark.parametrize(
    ("given", "environ", "text"),
    [
        ({"backends": {"cdua": {}}}, {}, "there is no backend 'cdua'; did you mean 'cuda'?"),
        ({"backends": {"cdua": {"x": 1}}}, {}, "code: key backends.cdua: there is no backend 'cdua'"),
        ({"devices": {"backends": ["cc"]}}, {}, "code: key devices.backends: cc: there is no backend 'cc'"),
        ({"devices": {"order": ["c:0", "gpu:1"]}}, {}, "key devices.order: gpu:1: there is no backend 'gpu'"),
        ({}, {"ZYX_BACKENDS": "opencll"}, "ZYX_BACKENDS: key devices.backends: opencll"),
        ({}, {"ZYX_DEVCE": "c"}, "ZYX_DEVCE: there is no such variable; did you mean ZYX_DEVICE?"),
        ({}, {"ZYX_NUM_THREAD": "4"}, "did you mean ZYX_NUM_THREADS?"),
    ],
)
def test_misspelt_names_and_variables_are_errors(given: dict[str, object], environ: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        PluginManager(load_settings(given, environ, NO_FILE), []).load()
    assert text in str(raised.value)


def test_variables_of_backends_are_no_misspelt_ones() -> None:
    environ = {"ZYX_C_CACHE_DIR": "x", "ZYX_CUDA_DEVICE": "0", "ZYX_UNRELATED": "1"}
    assert PluginManager(load_settings({}, environ, NO_FILE), []).load()


CONFIGURED = {
    "@hookimpl\ndef zyx_memory_pools()": (
        "import dataclasses\n"
        "@dataclasses.dataclass\nclass Config:\n    size: int = 64\n"
        "@hookimpl\ndef zyx_config_section():\n    return Config\n"
        "@hookimpl\ndef zyx_memory_pools(config)"
    ),
    POOLS: 'return [DummyPool("{name} memory", config.section.size)]',
}


def install_sized(package: PackageMaker) -> None:
    replace = {old.replace("{name}", "sized"): new.replace("{name}", "sized") for old, new in CONFIGURED.items()}
    package("sized", replace=replace)


def test_a_backend_gets_its_section_of_the_configuration(package: PackageMaker) -> None:
    install_sized(package)
    for given, size in (({}, 64), ({"backends": {"sized": {"size": 128}}}, 128)):
        opened = open_backends(PluginManager(load_settings(given, {}, NO_FILE)), ["sized"])
        assert opened.pools["sized memory"].free_bytes == size


def test_a_wrong_section_is_an_error_of_the_users_and_raised(package: PackageMaker) -> None:
    install_sized(package)
    with pytest.raises(
        SettingsError, match=r"key backends\.sized\.size: 'big' is not accepted; it takes a whole number"
    ):
        opened_with(backends={"sized": {"size": "big"}})
    with pytest.raises(SettingsError, match=r"key backends\.sized\.sise: there is no such key; did you mean 'size'"):
        opened_with(backends={"sized": {"sise": 1}})


def test_what_a_backend_opened_before_it_failed_is_closed(
    package: PackageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(DummyPool, "close", lambda pool: closed.append(pool.name))
    package("half", replace={DEVICES.replace("{name}", "half"): "raise RuntimeError"})
    package("wrong", replace={'"{name}:0"'.replace("{name}", "wrong"): '"gpu"'})
    opened = open_backends(PluginManager(load_settings({}, {}, NO_FILE)))
    assert closed == ["half memory", "wrong memory"]
    assert "half memory" not in opened.pools


def test_closing_closes_everything_and_notes_what_raises(
    package: PackageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(pool: DummyPool) -> None:
        raise RuntimeError(f"{pool.name} is stuck")

    package("good")
    opened = open_backends(PluginManager(load_settings({}, {}, NO_FILE)))
    monkeypatch.setattr(DummyPool, "close", fail)
    opened.close()
    assert not opened.pools
    assert not opened.devices
    report = next(report for report in opened.reports if report.name == "good")
    assert report.faults[0].startswith("closing good memory: RuntimeError: good memory is stuck")


def test_a_backend_that_failed_is_not_tried_again(package: PackageMaker) -> None:
    replace = {
        DEVICES.replace("{name}", "counts"): "tries.append(1); raise RuntimeError",
        "@hookimpl\ndef zyx_backend": "tries = []\n@hookimpl\ndef zyx_backend",
    }
    package("counts", replace=replace)
    opened = open_backends(PluginManager(load_settings({}, {}, NO_FILE)))
    opened.open_all()
    opened.open("counts")
    assert sys.modules["zyx_toy_counts"].tries == [1]
