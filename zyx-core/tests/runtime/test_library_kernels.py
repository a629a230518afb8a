"""When a vendor's kernel takes the place of a generated one."""

from types import SimpleNamespace

import numpy as np
import pytest

import zyx
from zyx.autotune.store import TuningStore, Winner
from zyx.backend import Program
from zyx.backend.library import Gemm, LibraryKernel
from zyx.errors import UnsupportedError
from zyx.fusion import library
from zyx.libraries.product import match_gemm
from zyx.nest.digest import digest_of_nests
from zyx.runtime.candidates import Candidates
from zyx.runtime.planner import Planner
from zyx.settings.record import Autotune


class VendorProgram(Program):
    """What the devices of these tests launch: a function of arrays, and the parameters."""

    __slots__ = ("executable", "params")


def prepare(problem):
    """Return a program of a product; of the small ones there are none."""
    if problem.m < 4:
        raise UnsupportedError(f"vendor has no {problem}")
    program = VendorProgram("vendor")
    sizes = problem.m * problem.k, problem.k * problem.n, problem.m * problem.n
    dtypes = problem.dtype, problem.dtype, problem.out_dtype
    program.params = [SimpleNamespace(length=size, dtype=dtype) for size, dtype in zip(sizes, dtypes, strict=True)]

    def executable(arrays):
        a, b, c = arrays
        a = a.reshape(problem.k, problem.m).T if problem.transpose_a else a.reshape(problem.m, problem.k)
        b = b.reshape(problem.n, problem.k).T if problem.transpose_b else b.reshape(problem.k, problem.n)
        c[:] = (a.astype(np.float32) @ b.astype(np.float32)).ravel()

    program.executable = executable
    return program


def install(lab, monkeypatch, offered, seconds, autotune):
    """Let a runtime take kernels of a library; with the tuner on, `seconds` are what it finds, and its kernel's."""
    times, settings = iter(seconds), Autotune(**autotune)

    def tuned(nests, name, device):
        if match_gemm(nests[0]) is None:
            return
        theirs, ours = next(times), next(times)
        found = {"library": "vendor 1.0" if theirs < ours else "", "seconds": min(theirs, ours), "before_s": ours}
        about = {"kernel": name, "device": device.name, "what": "", "schedules": None, "tried": 1, "found_at": 0}
        store.put(device, digest_of_nests(nests), Winner(**about, **found))

    lab.compiler.store = store = TuningStore(None)
    monkeypatch.setattr(lab.compiler, "_tuned", tuned if settings.enabled else None)
    candidates = Candidates(settings, lambda _: offered, store)
    lab._planner = Planner(lab.device, lab.compiler, candidates, is_deterministic=False)


@pytest.fixture
def launched(lab, device, monkeypatch):
    """Return a function that returns the name of the kernel that a product launches, whose values are checked.

    `seconds` are what a launch of the library's and of the generated kernel take, by a clock that is asked in turn.
    """

    def run(*, unmeasured, rows=8, seconds=(), **autotune):
        offered = [LibraryKernel("vendor 1.0", Gemm, prepare, unmeasured=unmeasured)]
        install(lab, monkeypatch, offered, seconds, autotune)
        a, b = (np.arange(n * k, dtype=np.float32).reshape(n, k) for n, k in ((rows, 16), (16, 8)))
        np.testing.assert_array_equal((zyx.Tensor(a) @ zyx.Tensor(b)).numpy(), a @ b)
        (name,) = device.launched
        if name == "vendor" or not seconds:  # what is not launched is not compiled
            assert device.compiled == ([] if name == "vendor" else [name])
        return name

    return run


def test_a_library_is_not_taken_unmeasured_unless_it_says_so():
    kernel = LibraryKernel("vendor 1.0", Gemm, prepare)
    assert not kernel.unmeasured


@pytest.mark.parametrize(
    ("policy", "unmeasured", "is_taken"),
    [
        ("measure", True, True), ("measure", False, False), ("off", True, False), ("prefer", False, True),
        ("prefer", True, True),
    ],
)  # fmt: skip
def test_with_the_tuner_off_the_policy_and_the_library_decide(policy, unmeasured, is_taken, launched):
    assert (launched(unmeasured=unmeasured, library_kernels=policy) == "vendor") == is_taken


@pytest.mark.parametrize("unmeasured", [False, True])
@pytest.mark.parametrize(("seconds", "is_taken"), [((1.0, 2.0), True), ((2.0, 1.0), False), ((1.0, 1.0), False)])
def test_with_the_tuner_on_the_faster_one_is_taken(unmeasured, seconds, is_taken, launched):
    name = launched(unmeasured=unmeasured, seconds=seconds, enabled=True)
    assert (name == "vendor") == is_taken


def test_what_the_library_cannot_do_is_generated(launched):
    assert launched(unmeasured=True, rows=3) != "vendor"


# ---- products that something follows, element by element

ROWS, DEPTH, COLUMNS = 8, 16, 12


@pytest.fixture
def problems(lab, monkeypatch):
    """``problems(...)`` lets a library serve products, of which 8 x 16 x 12 are large; it returns those asked for."""

    def offer(*, unmeasured=True, seconds=(), **autotune):
        asked = []

        def prepared(problem):
            asked.append(problem)
            return prepare(problem)

        monkeypatch.setattr(library, "_LEAST_WORK", ROWS * DEPTH * COLUMNS)
        monkeypatch.setattr(library, "_LEAST_DEPTH", COLUMNS)
        monkeypatch.setattr(library, "_DEPTH_AT_A_TIME", DEPTH)
        monkeypatch.setattr(library, "_ROWS_AT_A_TIME", ROWS)
        offered = [LibraryKernel("vendor 1.0", Gemm, prepared, unmeasured=unmeasured)]
        install(lab, monkeypatch, offered, seconds, autotune)
        return asked

    return offer


def operands(rows=ROWS, depth=DEPTH, dtype="float32"):
    random = np.random.default_rng(1)
    arrays = [random.integers(-3, 4, shape).astype(np.float32) for shape in ((rows, depth), (depth, COLUMNS), COLUMNS)]
    return arrays, [zyx.Tensor(array).astype(dtype).realize() for array in arrays]


def launches_of(device, tensor):
    """Return the names of the kernels that computing a tensor launches, and its values."""
    device.launched.clear()
    tensor.realize()
    return list(device.launched), tensor.astype("float32").numpy()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_large_product_is_the_library_s_and_what_follows_is_one_kernel(problems, device, dtype):
    asked = problems()
    (x, w, b), (tx, tw, tb) = operands(dtype=dtype)
    names, found = launches_of(device, (tx @ tw + tb).relu() * 0.5)
    assert (names[0], len(names)) == ("vendor", 2)
    assert asked[-1].out_dtype == getattr(zyx, dtype)  # rounded as by itself
    np.testing.assert_array_equal(found, np.maximum(x @ w + b, 0) * 0.5)


def test_sums_that_are_needed_before_they_are_rounded_stay_so(problems, device):
    asked = problems()
    (x, w, _), (tx, tw, _) = operands(dtype="float16")
    names, found = launches_of(device, zyx.matmul(tx, tw, dtype="float32") + 1)
    assert (names[0], len(names)) == ("vendor", 2)
    assert asked[-1].out_dtype == zyx.float32
    np.testing.assert_array_equal(found, x @ w + 1)


@pytest.mark.parametrize("enabled", [False, True])
def test_a_product_that_nothing_follows_stays_one_kernel_and_is_timed_once(problems, device, enabled):
    problems(enabled=enabled, seconds=(1.0, 2.0))
    (x, w, _), (tx, tw, _) = operands()
    names, found = launches_of(device, tx @ tw)
    assert names == ["vendor"]
    np.testing.assert_array_equal(found, x @ w)


def test_several_products_of_one_graph_are_each_the_library_s(problems, device):
    problems()
    (x, w, b), (tx, tw, tb) = operands()
    hidden = (tx @ tw + tb).relu()
    names, found = launches_of(device, (hidden @ zyx.Tensor(w.T.copy()).realize()).relu() + tx)
    assert names.count("vendor") == 2
    assert len(names) == 4
    np.testing.assert_array_equal(found, np.maximum(np.maximum(x @ w + b, 0) @ w.T, 0) + x)


@pytest.mark.parametrize("size", [{"rows": ROWS - 1}, {"rows": 99, "depth": COLUMNS - 1}], ids=["work", "depth"])
def test_small_and_shallow_products_take_along_what_follows(problems, device, size):
    asked = problems()
    (x, w, b), (tx, tw, tb) = operands(**size)
    names, found = launches_of(device, tx @ tw + tb)
    assert len(names) == 1
    assert "vendor" not in names
    assert asked == []
    np.testing.assert_array_equal(found, x @ w + b)


@pytest.mark.parametrize(
    "settings", [{"library_kernels": "off"}, {"unmeasured": False}, {"enabled": True, "seconds": (2.0, 1.0)}], ids=str
)
def test_where_the_library_is_not_taken_products_take_along_what_follows(problems, device, settings):
    problems(**settings)
    (x, w, b), (tx, tw, tb) = operands()
    names, found = launches_of(device, tx @ tw + tb)
    assert len(names) == 1
    assert "vendor" not in names
    np.testing.assert_array_equal(found, x @ w + b)


def test_what_the_library_refuses_is_generated_as_a_whole(problems, device, monkeypatch):
    problems()
    monkeypatch.setattr(library, "_LEAST_WORK", 1)
    (x, w, b), (tx, tw, tb) = operands(rows=3)
    names, found = launches_of(device, tx @ tw + tb)
    assert len(names) == 1
    assert "vendor" not in names
    np.testing.assert_array_equal(found, x @ w + b)


def test_of_two_products_the_one_that_the_library_refuses_takes_along_what_follows(problems, device, monkeypatch):
    problems()
    monkeypatch.setattr(library, "_LEAST_WORK", 1)
    monkeypatch.setattr(library, "_LEAST_DEPTH", 1)
    (x, w, b), (tx, tw, tb) = operands()
    few = np.arange(3 * ROWS, dtype=np.float32).reshape(3, ROWS)
    names, found = launches_of(device, zyx.Tensor(few) @ (tx @ tw + tb).relu() + tb)
    assert (names[0], len(names), names.count("vendor")) == ("vendor", 3, 1)
    np.testing.assert_array_equal(found, few @ np.maximum(x @ w + b, 0) + b)


@pytest.mark.parametrize("enabled", [False, True])
def test_with_and_without_the_tuner_a_faster_library_is_taken(problems, device, enabled):
    problems(enabled=enabled, seconds=(1.0, 2.0) * 2)
    (x, w, b), (tx, tw, tb) = operands()
    names, found = launches_of(device, tx @ tw + tb)
    assert (names[0], len(names)) == ("vendor", 2)
    np.testing.assert_array_equal(found, x @ w + b)


def test_gradients_of_a_layer_are_the_library_s(problems, device):
    problems()
    (x, w, b), (tx, tw, tb) = operands()
    with zyx.Tape() as tape:
        loss = ((tx @ tw + tb).relu() ** 2).sum()
    gradient = tape.gradient(loss, tw)
    device.launched.clear()
    upstream = 2 * np.maximum(x @ w + b, 0)
    np.testing.assert_allclose(gradient.numpy(), x.T @ upstream, rtol=1e-5)
    assert "vendor" in device.launched


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_library_gets_factors_as_they_are_stored(problems, device, dtype):
    asked = problems()
    (x, w, _), (tx, tw, _) = operands(dtype=dtype)
    weights = (tw * 0.5).softmax(axis=0)  # in float32, then rounded
    names, found = launches_of(device, tx @ weights)
    assert "vendor" in names
    assert asked[-1].dtype == getattr(zyx, dtype)
    exponentials = np.exp(w * 0.5)
    tolerance = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 1e-5}[dtype]
    np.testing.assert_allclose(found, x @ (exponentials / exponentials.sum(axis=0)), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("turned", [False, True])
def test_factors_that_are_rounded_while_they_are_read_are_not_the_library_s(problems, device, turned):
    asked = problems()
    (x, w, _), (tx, tw, _) = operands()
    factors = (tx.astype("float16").realize(), tw.astype("float16"))
    wanted = x @ w
    if turned:
        factors, wanted = (factors[1].T, factors[0].T), wanted.T
    _, found = launches_of(device, factors[0] @ factors[1])
    np.testing.assert_array_equal(found, wanted)
    assert asked == []


# ---- products of what lies where the launch says


def test_products_of_slices_that_begin_where_the_launch_says_are_generated(problems, device):
    problems()
    (x, w, _), (_, tw, _) = operands(rows=40)
    tx = zyx.Tensor(x).realize()
    names = []
    for start in (0, 3, 8, 20):
        launched, found = launches_of(device, tx[start : start + ROWS] @ tw)
        names += launched
        np.testing.assert_array_equal(found, x[start : start + ROWS] @ w)
    assert names[0] == "vendor"  # that at the start, which was a constant then
    assert "vendor" not in names[1:]


@pytest.mark.parametrize(("layer", "length"), [(zyx.nn.LSTM, 6), (zyx.nn.LSTM, 33), (zyx.nn.GRU, 6)])
def test_gradients_of_layers_that_read_sequences_are_those_without_a_library(lab, problems, layer, length):
    """Their products are steps of loops, each of which reads and writes at a place of its own."""
    random = np.random.default_rng(2)
    x, y = (random.standard_normal((length, 4, width)).astype(np.float32) for width in (5, 9))
    network = layer(5, 9)

    def gradients():
        inputs = zyx.Tensor(x)
        with zyx.Tape() as tape:
            loss = ((network(inputs)[0] - zyx.Tensor(y)) ** 2).sum()
        found = tape.gradient(loss, [inputs, *network.parameters()])
        return [gradient.numpy() for gradient in found]

    problems(library_kernels="off")
    wanted = gradients()
    lab.drop_plans()
    problems(library_kernels="prefer")
    for found, expected in zip(gradients(), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_plan_with_products_of_the_library_is_explained(problems, device):
    problems()
    _, (tx, tw, tb) = operands()
    y = (tx @ tw + tb).relu()
    device.launched.clear()
    steps = zyx.explain_plan(y)["steps"]
    assert [step["is_library"] for step in steps] == [True, False]
    assert not device.launched
    y.realize()
    assert device.launched == [step["name"] for step in steps]


# ---- what becomes of the library's programs


def test_a_program_is_prepared_once_for_a_problem(problems, device):
    asked = problems()
    (x, _, _), (tx, tw, tb) = operands()
    for follow in (lambda y: y, lambda y: y + tb, lambda y: y.relu() * 2.0):  # plans of their own
        launches_of(device, follow(tx @ tw))
    assert device.launched.count("vendor") == 1
    assert len(asked) == len(set(asked)) == 1
    (_, other, _), (_, _, _) = operands()
    launches_of(device, zyx.Tensor(x[:4]) @ zyx.Tensor(other))
    assert len(asked) == 2


def test_programs_are_released_with_the_last_plan_that_launches_them(problems, lab, device):
    asked = problems()
    (x, w, _), (tx, tw, _) = operands()
    launches_of(device, tx @ tw)
    lab.compiler.drop_unused()
    assert "vendor" not in device.released
    lab.drop_plans()
    lab.compiler.drop_unused()
    assert device.released.count("vendor") == 1
    names, found = launches_of(device, tx @ tw)
    assert (names, len(asked)) == (["vendor"], 2)
    np.testing.assert_array_equal(found, x @ w)


def test_programs_are_released_at_the_end(problems, lab, device):
    problems()
    _, (tx, tw, _) = operands()
    launches_of(device, tx @ tw)
    lab.close()
    assert device.released.count("vendor") == 1


def test_what_the_library_refuses_is_not_kept(problems, lab, device):
    asked = problems()
    for _ in range(2):
        launches_of(device, zyx.Tensor(np.ones((3, 16), np.float32)) @ zyx.Tensor(np.ones((16, 200), np.float32)))
        lab.drop_plans()
    assert asked
    assert "vendor" not in device.launched


@pytest.mark.parametrize(("policy", "is_taken"), [("measure", False), ("prefer", True)])
def test_a_thin_product_of_short_floats_is_not_left_to_a_library_unmeasured(problems, device, policy, is_taken):
    problems(library_kernels=policy)
    (x, w, _), (tx, tw, _) = operands(dtype="bfloat16")
    names, found = launches_of(device, tx[:, 1:].contiguous() @ tw[1:].contiguous())
    assert ("vendor" in names) is is_taken
    np.testing.assert_array_equal(found, x[:, 1:] @ w[1:])
