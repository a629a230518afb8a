"""Functions that the host calls in the middle of a plan."""

import numpy as np
import pytest

import zyx
from zyx.errors import DeviceError, GradientError, LinAlgError, ShapeError, VerifyError
from zyx.graph import Graph
from zyx.graph.evaluate import evaluate
from zyx.graph.host_call import HostCall
from zyx.graph.node import Custom
from zyx.graph.printer import format_graph
from zyx.graph.verify import verify

pytestmark = pytest.mark.usefixtures("interpreter")
F64 = zyx.float64
calls = []


def both(a, b, factor):
    calls.append((a.copy(), b.copy()))
    return a + factor * b, a[..., :1]


def fails(a):
    raise np.linalg.LinAlgError("this is singular")


def mistaken(a):
    return (a[:1],)


def call(function=both, outputs=(((2, 3), F64), ((2, 1), F64)), parameters=(10.0,)):
    return HostCall("test", "NumPy", function, outputs, parameters)


def tensors(x, *more, made=None):
    """Return the outputs of a call as tensors."""
    nodes = (made or call()).apply(x.runtime.graph, [x.node, *(y.node for y in more)])
    return [x.like(node) for node in nodes]


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


def values():
    return np.arange(6.0).reshape(2, 3), np.ones((2, 3))


def test_what_is_read_is_computed_between_kernels():
    a, b = values()
    total, column = tensors(zyx.Tensor(a) * 2, zyx.Tensor(b) + 1)
    assert calls == []
    result = total * column
    assert np.array_equal(result.numpy(), (2 * a + 20) * (2 * a)[:, :1])
    assert len(calls) == 1
    assert np.array_equal(calls[0][0], 2 * a)


def test_outputs_that_are_read_one_after_another_take_one_call():
    a, b = values()
    total, column = tensors(zyx.Tensor(a), zyx.Tensor(b))
    assert np.array_equal((total + 1).numpy(), a + 11)
    assert column.is_realized
    assert column.tolist() == [[0.0], [3.0]]
    assert (total * column).sum().item() == (a + 10)[1].sum() * 3
    assert len(calls) == 1


def as_complex(a):
    calls.append(a.copy())
    return a * 1j, a + 1


def test_outputs_that_are_complex_and_others_take_one_call():
    x = zyx.Tensor([1.0, 2.0])
    made = call(as_complex, (((2,), zyx.complex64), ((2,), zyx.float32)), ())
    turned, more = tensors(x, made=made)
    both_read = turned * more.astype(zyx.complex64)
    assert both_read.tolist() == [2j, 6j]
    assert len(calls) == 1


def test_slopes_take_the_outputs_that_there_are():
    x = zyx.Tensor(np.diag([1.0, 2.0]))
    with zyx.Tape() as tape:
        found = zyx.linalg.eigh(x)
        result = (found.eigenvectors[0] * found.eigenvalues).sum()
    assert np.isfinite(result.item())
    assert found.eigenvalues.is_realized
    assert np.isfinite(tape.gradient(result, x).numpy()).all()


def test_outputs_that_nobody_reads_are_dropped():
    a, b = values()
    _, column = tensors(zyx.Tensor(a), zyx.Tensor(b))
    assert column.tolist() == [[0.0], [3.0]]


def test_a_call_that_fails_says_so_at_every_reading_and_harms_nothing_else():
    x = zyx.Tensor(values()[0])
    (result,) = tensors(x, made=call(fails, (((2, 3), F64),), ()))
    for _ in range(2):
        with pytest.raises(LinAlgError, match=r"^test of \[2, 3\]: this is singular"):
            (result + 1).numpy()
    assert (x + 1).sum().item() == 21


def test_a_function_that_gives_another_shape_is_found_out():
    (result,) = tensors(zyx.Tensor(values()[0]), made=call(mistaken, (((2, 3), F64),), ()))
    with pytest.raises(ShapeError, match=r"host test \(NumPy\) gave arrays of shapes \[\(1, 3\)\], not \[\(2, 3\)\]"):
        result.numpy()


def test_results_have_the_dtype_that_they_are_said_to_have():
    (result,) = tensors(zyx.Tensor([1, 2]), made=call(lambda a: (a * 2,), (((2,), zyx.float32),), ()))
    assert (result / 4).tolist() == [0.5, 1.0]


def test_plans_are_made_once_and_run_with_other_values():
    a, b = values()
    for factor in (1.0, 2.0, 3.0):
        total, _ = tensors(zyx.Tensor(a * factor), zyx.Tensor(b))
        assert np.array_equal(total.numpy(), a * factor + 10)
    assert len([plan for plan in zyx.Tensor(a).runtime._plans.values() if plan.calls]) == 1


def test_calls_in_jitted_functions_are_made_at_every_call():
    a, b = values()

    @zyx.jit
    def function(x, y):
        total, column = tensors(x + 1, y)
        return (total * column).sum(axis=1)

    for number in range(5):
        found = function(zyx.Tensor(a + number), zyx.Tensor(b))
        assert np.allclose(found.numpy(), ((a + number + 11) * (a + number + 1)[:, :1]).sum(1))
    assert len(calls) == 5


def test_jitted_functions_of_many_lengths():
    function = zyx.jit(lambda x: (zyx.linalg.inv(x) @ x).sum())
    for size in range(1, 8):
        x = zyx.Tensor(np.eye(size) * 3 + np.ones((size, size)))
        assert np.isclose(function(x).item(), size)
    by_batch = zyx.jit(lambda x: zyx.linalg.det(x) + 1)
    for count in range(6):
        x = zyx.Tensor(np.broadcast_to(np.eye(2) * 3, (count, 2, 2)).copy())
        assert np.allclose(by_batch(x).numpy(), np.full(count, 10.0))


def test_calls_of_complex_numbers_are_of_pairs_in_plans():
    drawn = np.random.default_rng(2).standard_normal((2, 3, 3))
    x = zyx.Tensor(drawn + 1j * drawn.swapaxes(-1, -2))
    assert np.allclose((zyx.linalg.inv(x * 2) @ x).numpy(), np.eye(3) / 2)
    plan = zyx.explain_plan(zyx.linalg.det(x))
    assert [step["name"] for step in plan["steps"]] == ["host det (LAPACK)"]  # of the values as they lie in memory

    @zyx.jit
    def again(x):
        values, vectors = zyx.linalg.eig(x)
        return (vectors * values[..., None, :]) @ zyx.linalg.inv(vectors), zyx.linalg.svdvals(x).sum()

    for factor in (1, 2, 3):
        found, total = again(x * factor)
        assert np.allclose(found.numpy(), x.numpy() * factor)
        assert np.isclose(total.item(), factor * np.linalg.svd(x.numpy(), compute_uv=False).sum())
    with pytest.raises(LinAlgError, match=r"solve of \[3, 3\] and \[3, 3\]: Singular"):
        zyx.linalg.inv(zyx.zeros(3, 3, dtype="complex64")).numpy()


def test_a_jitted_function_goes_on_after_a_call_that_failed():
    state = zyx.Tensor(np.zeros((2, 2)))

    @zyx.jit
    def function(x):
        state.assign(state + x)
        return zyx.linalg.inv(x)

    good, bad = zyx.Tensor(np.eye(2) * 2), zyx.Tensor(np.ones((2, 2)))
    for _ in range(3):
        assert np.array_equal(function(good).numpy(), np.eye(2) / 2)
    with pytest.raises(LinAlgError, match="Singular"):
        function(bad).numpy()
    assert np.array_equal(function(good).numpy(), np.eye(2) / 2)
    assert np.isfinite(state.numpy()).all()


def test_numbers_that_change_from_call_to_call():
    x = zyx.Tensor(np.diag([1.0, 0.1, 0.01]))
    for rtol, rank in ((0.5, 1), (0.05, 2), (0.005, 3), (0.2, 1), (0.02, 2), (0.002, 3)):
        inverse = zyx.linalg.pinv(x, rtol=rtol).numpy()
        assert np.linalg.matrix_rank(inverse) == rank
        batch = zyx.linalg.pinv(zyx.stack([x, x]), rtol=rtol).numpy()
        assert np.array_equal(batch, np.stack([inverse, inverse]))


def test_what_is_between_two_calls():
    x = zyx.Tensor(np.diag([1.0, 2.0, 4.0]))
    inverse = zyx.linalg.inv(x * 2)
    result = zyx.linalg.det(inverse + inverse.mT)
    assert np.isclose(result.item(), 1 / 8)


def test_inputs_of_one_call_lie_on_one_device():
    graph = Graph()
    with pytest.raises(DeviceError, match="different devices"):
        call().apply(graph, [graph.leaf((2, 3), F64, device) for device in ("c:0", "cuda:0")])


def test_the_plan_is_shown(capsys):
    x = zyx.Tensor(np.eye(2) * 2)
    with zyx.debug("plan", "launches"):
        (zyx.linalg.inv(x) * 3).numpy()
    shown = capsys.readouterr().err
    assert "plan of 2 launches, 1 calls of the host and 0 copies" in shown
    assert "    call host solve (LAPACK) for interpreter:0: 0, " in shown
    assert "host solve (LAPACK) for interpreter:0: " in shown.split("made in")[1]


def test_the_plan_is_explained_and_drawn():
    x = zyx.Tensor(np.eye(2) * 2)
    plan = zyx.explain_plan(zyx.linalg.det(x) * 3)
    (step,) = [step for step in plan["steps"] if step["kind"] == "call"]
    assert step["name"] == "host det (LAPACK)"
    assert step["reads"] == [0]
    assert step["bytes"] == 40
    assert "host det (LAPACK)" in zyx.plot_dot_plan(zyx.linalg.det(x) * 3)


def test_the_profile_has_the_time_of_calls():
    x = zyx.Tensor(np.eye(2) * 2)
    with zyx.profile() as profile:
        for _ in range(3):
            (zyx.linalg.det(x) * 3).numpy()
            x = x + 1
    (row,) = [row for row in profile.kernels() if row.is_host]
    assert (row.name, row.device, row.launches) == ("host det (LAPACK)", "interpreter:0", 3)
    assert row.seconds > 0
    assert "the host" in str(profile)


def test_gradients_are_asked_of_the_call():
    (x,) = [zyx.Tensor(values()[0])]
    with zyx.Tape() as tape:
        result = tensors(x, x)[0].sum()
    with pytest.raises(GradientError, match="test has no gradient"):
        tape.gradient(result, x)


def test_the_oracle_calls_it_and_the_printer_names_it():
    graph = Graph()
    a, b = values()
    leaves = [graph.leaf((2, 3), F64, "c:0", array) for array in (a, b)]
    total, column = call().apply(graph, leaves)
    verify([total, column])
    found = evaluate([total, column])
    assert np.array_equal(found[0], a + 10)
    assert np.array_equal(found[1], a[:, :1])
    assert "%2: f64[2, 3] = custom %0, %1, kernel=host test (NumPy), output=0" in format_graph([total])
    assert call().apply(graph, leaves)[0] is total
    assert call(parameters=(3.0,)).apply(graph, leaves)[0] is not total


@pytest.mark.parametrize(
    ("shape", "dtype", "output"), [((2, 3), F64, 1), ((2, 3), F64, 2), ((3, 2), F64, 0), ((2, 3), zyx.float32, 0)]
)
def test_the_verifier_knows_the_outputs(shape, dtype, output):
    graph = Graph()
    leaf = graph.leaf((2, 3), F64, "c:0")
    with pytest.raises(VerifyError, match=r"rule 19: output . of host test \(NumPy\) is another one"):
        verify([Custom(shape, dtype, "c:0", (leaf, leaf), call(), output)])
