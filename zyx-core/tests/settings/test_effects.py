"""What each row of the table of settings does: a function each, and a test that none is missing."""

import contextlib
import re
import tempfile
import threading
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import zyx
from zyx.autotune.measure import Scratch
from zyx.autotune.search import Search
from zyx.backend import Program
from zyx.backend.library import Gemm, LibraryKernel
from zyx.builtin.interpreter import InterpreterDevice
from zyx.distributed.waiting import wait_until
from zyx.errors import CollectiveTimeoutError
from zyx.hookspecs import API_VERSION, BackendConfig, BackendInfo, hookimpl
from zyx.kernel.data import Atomic
from zyx.plugins.discover import Found
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.runtime.runtime import Runtime, current, use
from zyx.settings import variables
from zyx.settings.load import load_settings

EFFECTS = {}


def shows(key):
    """Mark a function as what shows the effect of a key."""

    def mark(function):
        assert key not in EFFECTS
        EFFECTS[key] = function
        return function

    return mark


@dataclass(frozen=True)
class Section:
    size: int = 1


class Backend:
    """A backend that notes what it is configured with, and offers a library for products."""

    def __init__(self) -> None:
        self.config: BackendConfig | None = None
        self.library: list[LibraryKernel] = []
        self.wait = lambda: None

    @hookimpl
    def zyx_backend_info(self) -> BackendInfo:
        return BackendInfo("toy", "1.0", API_VERSION, "notes things", works_on_host_memory=True)

    @hookimpl
    def zyx_config_section(self) -> type:
        return Section

    @hookimpl
    def zyx_devices(self, config, pools):
        self.wait()
        self.config = config
        return [InterpreterDevice("toy:0", pools["host"])]

    @hookimpl
    def zyx_library_kernels(self, device):
        return self.library


@contextlib.contextmanager
def opened(given, environ=None):
    """Open a runtime with some settings, the backend among its packages, and make it the current one."""
    backend = Backend()
    settings = load_settings(given, environ or {}, Path("/nonexistent/config.json"))
    runtime = Runtime(settings)
    found = [Found("toy", "toy", "zyx-backend-toy", "1.0", lambda: backend)]
    runtime._opened = OpenedBackends(PluginManager(settings, found))
    with use(runtime), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield runtime, backend
    runtime.close()


def configured(given):
    with opened(given) as (runtime, backend):
        runtime.device("toy")
        assert backend.config is not None
        return backend.config


@shows("devices.default")
def default_device():
    with opened({"devices": {"default": "interpreter"}}):
        assert zyx.default_device() == "interpreter:0"
    with opened({}):
        assert zyx.default_device() == "toy:0"


@shows("devices.order")
def order():
    with opened({"devices": {"order": ["cuda", "dummy"]}, "backends": {"dummy": {"enabled": True}}}):
        assert zyx.default_device() == "dummy:0"


@shows("devices.backends")
def backends():
    with opened({"devices": {"backends": ["interpreter"]}}):
        assert zyx.devices() == ["interpreter:0"]


@shows("devices.timeout_s")
def timeout():
    done = threading.Event()
    with opened({"devices": {"timeout_s": 0.1}}) as (_, backend):
        backend.wait = lambda: done.wait(20)
        assert zyx.devices() == ["interpreter:0"]
        report = next(report for report in zyx.backends() if report.name == "toy")
        assert "did not come back within 0.1 s (ZYX_BACKEND_TIMEOUT_S)" in report.reason
    done.set()
    with opened({"devices": {"timeout_s": 0}}) as (_, backend):
        called_from = []
        backend.wait = lambda: called_from.append(threading.get_ident())
        assert zyx.devices() == ["toy:0", "interpreter:0"]
        assert called_from == [threading.get_ident()]


@shows("debug")
def debug(capsys):
    with opened({"debug": "compile"}):
        zyx.ones(3, device="toy").sum().numpy()
    assert capsys.readouterr().err.startswith("compiled")


class Product(Program):
    __slots__ = ()


def launches_of_a_product(settings, *, unmeasured):
    """Return how often kernels of a library and generated ones were launched to compute a product."""
    launched = {"library": 0, "generated": 0}

    with opened(settings) as (runtime, backend), pytest.MonkeyPatch.context() as patch:
        a, b = (zyx.Tensor(np.ones(shape, np.float32), device="toy") for shape in ((8, 16), (16, 8)))
        device = runtime.device("toy")
        launch = device.launch

        def counted(program, args, events=()):
            if isinstance(program, Product):
                launched["library"] += 1
                return runtime.device("toy").memory_pool.completed()
            launched["generated"] += 1
            return launch(program, args, events)

        patch.setattr(device, "launch", counted)
        backend.library = [LibraryKernel("vendor", Gemm, lambda _: Product("vendor"), unmeasured=unmeasured)]
        (a @ b).realize()
    return launched


def searched(**autotune):
    """Return what the search of a sum did: its candidates, children a step, candidates dropped, launches of each."""
    seen = SimpleNamespace(timed=[], steps=[], dropped=0, launches=set(), seconds=[], files=[])

    def noting(name, note):
        before = getattr(Search, name)

        def method(search, *args):
            result = before(search, *args)
            note(result, *args)
            return result

        patch.setattr(Search, name, method)

    def dropped(*_):
        seen.dropped += 1

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        noting("_time_one", lambda _, scratch, found, known, candidate, wanted: seen.timed.append(candidate))
        noting("_children", lambda result, known: seen.steps.append(len(result)))
        noting("_drop", dropped)
        noting("run", lambda result, seconds: seen.seconds.append(seconds))
        patch.setattr(
            Scratch,
            "seconds",
            lambda self, program, launches, **more: seen.launches.add(launches) or 1 + len(seen.timed),
        )
        few = {"enabled": True, "time_budget_s": 60.0, "n_total_opts": 12, "n_seeds": 4}
        with opened({"autotune": few | autotune, "cache": {"directory": folder}}):
            zyx.Tensor(np.ones((40, 64), np.float32), device="toy").sum(1).realize()
        seen.files = [path.name for path in Path(folder).glob("schedules*")]
    return seen


@shows("autotune.enabled")
def autotune_enabled():
    assert searched().timed
    assert not searched(enabled=False).timed


@shows("autotune.time_budget_s")
def autotune_time_budget_s():
    assert searched(time_budget_s=7.5).seconds == [7.5]
    assert not searched(time_budget_s=0.0).timed


@shows("autotune.save_to_disk")
def autotune_save_to_disk():
    assert searched().files == ["schedules-1.sqlite"]
    assert searched(save_to_disk=False).files == []


@shows("autotune.seed")
def autotune_seed():
    def order(seed):
        return [candidate.moves for candidate in searched(seed=seed, n_total_opts=24).timed]

    assert order(1) == order(1)
    assert order(1) != order(2)


@shows("autotune.n_launches")
def autotune_n_launches():
    assert searched(n_launches=3).launches == {3}


@shows("autotune.n_seeds")
def autotune_n_seeds():
    def families(count):
        return sum(candidate.origin == "family" for candidate in searched(n_seeds=count).timed)

    assert families(0) == 0
    assert families(2) == 2


@shows("autotune.n_added_per_step")
def autotune_n_added_per_step():
    assert set(searched(n_added_per_step=1).steps) == {1}
    assert max(searched(n_added_per_step=3).steps) == 3


@shows("autotune.n_removed_per_step")
def autotune_n_removed_per_step():
    assert searched(n_removed_per_step=0).dropped == 0
    seen = searched(n_removed_per_step=2, n_added_per_step=4)
    assert seen.dropped == 2 * len(seen.steps) > 0


@shows("autotune.n_total_opts")
def autotune_n_total_opts():
    assert len(searched(n_total_opts=5).timed) == 5
    assert not searched(n_total_opts=0).timed


@shows("autotune.library_kernels")
def autotune_library_kernels():
    taken = {"library": 1, "generated": 0}
    refused = {"library": 0, "generated": 1}
    for policy, unmeasured, launched in [
        ("off", True, refused), ("measure", True, taken), ("measure", False, refused), ("prefer", False, taken)
    ]:  # fmt: skip
        given = {"autotune": {"library_kernels": policy}}
        assert launches_of_a_product(given, unmeasured=unmeasured) == launched


@shows("cache.enabled")
def cache_enabled():
    assert configured({"cache": {"enabled": False}}).cache_directory is None
    assert configured({}).cache_directory is not None


@shows("cache.directory")
def cache_directory():
    assert configured({"cache": {"directory": "/somewhere"}}).cache_directory == Path("/somewhere")


@shows("cache.max_bytes")
def cache_max_bytes():
    assert configured({"cache": {"max_bytes": 7}}).cache_bytes == 7
    assert configured({}).cache_bytes == 1 << 30


@shows("cache.calibration")
def cache_calibration():
    """What was measured of a device takes the place of what its backend says."""
    from zyx.backend.rates import assumed_rates
    from zyx.plugins.measured import keep_rates

    with tempfile.TemporaryDirectory() as folder:
        plain = Runtime({"cache": {"calibration": False}})
        info = plain.device("interpreter").info
        plain.close()
        assert keep_rates(Path(folder), info, replace(assumed_rates(info), bytes_per_s=7.0, is_measured=True))
        for calibration in (True, False):
            other = Runtime({"cache": {"directory": folder, "calibration": calibration}})
            assert (other.device("interpreter").info.bytes_per_s == 7.0) == calibration
            other.close()


@shows("collectives.timeout_s")
def collectives_timeout():
    with opened({"collectives": {"timeout_s": 0.05}}), pytest.raises(CollectiveTimeoutError) as failed:
        wait_until(lambda: False, "barrier: rank 0 of 3", lambda: [1, 2])
    assert "barrier: rank 0 of 3 has waited 0.1 s for ranks 1, 2; the limit is 0.05 s" in str(failed.value)
    asked = []
    with opened({"collectives": {"timeout_s": 0}}):
        wait_until(lambda: asked.append(1) or len(asked) > 200, "barrier", list)
    assert len(asked) == 201


@shows("progress")
def progress():
    for is_on in (True, False):
        with opened({"progress": is_on}):
            assert current().trace.has_bars is is_on
            with zyx.settings(progress=not is_on):
                assert current().trace.has_bars is not is_on


@shows("threads")
def threads():
    assert configured({"threads": 3}).threads == 3
    assert configured({}).threads >= 1


def combines_indivisibly():
    """Return whether the gradient of an embedding is summed up by indivisible operations."""
    kernels = []
    runtime = current()
    device = runtime.device("toy")
    compile_ = device.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "compile", lambda kernel: kernels.append(kernel) or compile_(kernel))
        index = zyx.Tensor(np.arange(40, dtype=np.int32) % 7, device="toy")
        zyx.zeros(20, device="toy").scatter_add(0, index, zyx.ones(40, device="toy")).realize()
    return any(isinstance(op, Atomic) for kernel in kernels for op in kernel.ops)


@shows("deterministic")
def deterministic():
    with opened({"deterministic": True}):
        assert not combines_indivisibly()
    with opened({}):
        assert combines_indivisibly()
        with zyx.settings(deterministic=True):
            assert not combines_indivisibly()


@shows("backends.<name>.enabled")
def backend_enabled():
    with opened({"backends": {"toy": {"enabled": False}}}):
        assert "toy:0" not in zyx.devices()
    with opened({}, {"ZYX_TOY_ENABLED": "0"}):
        assert "toy:0" not in zyx.devices()


@shows("backends.<name>.<field>")
def backend_field():
    assert configured({"backends": {"toy": {"size": 5}}}).section == Section(5)
    with opened({}, {"ZYX_TOY_SIZE": "6"}) as (runtime, backend):
        runtime.device("toy")
        assert backend.config.section == Section(6)


@pytest.mark.parametrize("key", EFFECTS)
def test_a_setting_does_what_the_table_says(key, request):
    function = EFFECTS[key]
    function(*([request.getfixturevalue("capsys")] if "capsys" in function.__code__.co_varnames else []))


def test_every_row_of_the_table_is_shown_here():
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.<>]+)` \| `ZYX_", text, re.MULTILINE)
    assert sorted(rows) == sorted(EFFECTS)
    assert set(variables.KEY_OF.values()) <= set(rows)
