"""What a program can ask of all tensors at once, data that is read on demand, and bits read otherwise."""

import numpy as np
import pytest

import zyx
from zyx.errors import ArgumentError, DTypeError, FormatError, NoDeviceError, ShapeError, StateError, TraceError
from zyx.runtime.closing import close_under
from zyx.runtime.runtime import current, use
from zyx.testing.opening import open_runtime

RNG = np.random.default_rng(5)


@pytest.fixture
def interpreter():
    opened = open_runtime("interpreter")
    with use(opened):
        yield opened
    opened.close()


@pytest.mark.parametrize("target", ["uint8", "int16", "float16", "bfloat16", "float32", "int64", "float64"])
@pytest.mark.parametrize("own", ["int8", "uint16", "float32", "uint64", "float64"])
def test_bits_are_read_as_numpy_reads_them(own, target):
    x = np.frombuffer(RNG.bytes(2 * 16 * 8), own).reshape(2, -1)
    wanted = x.view(getattr(zyx, target).numpy)
    for found in (zyx.Tensor(x).bitcast(target), zyx.Tensor(x).view(getattr(zyx, target))):
        assert found.dtype is getattr(zyx, target)
        assert found.numpy().tobytes() == wanted.tobytes()
        assert found.shape == wanted.shape


def test_bits_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"3 elements.*int16.*int32"):
        zyx.zeros(2, 3, dtype="int16").bitcast("int32")
    with pytest.raises(ShapeError, match="axis"):
        zyx.Tensor(1.0).bitcast("int8")
    with pytest.raises(DTypeError, match="bool"):
        zyx.ones(4, dtype="bool").bitcast("int32")
    assert zyx.ones(4).view(2, 2).shape == (2, 2)


def test_values_go_into_an_array_of_the_caller():
    x = zyx.arange(6, dtype="float32")
    out = np.zeros(4, np.float32)
    assert x[:4].numpy(out=out) is out
    assert out.tolist() == [0, 1, 2, 3]
    column = np.zeros((6, 2), np.float32)
    x.numpy(out=column[:, 1])
    assert column[:, 1].tolist() == x.tolist()
    with pytest.raises(ShapeError, match=r"\(4,\).*\(6,\)"):
        x.numpy(out=out)
    with pytest.raises(DTypeError, match=r"float32.*float64"):
        x.numpy(out=np.zeros(6))
    with pytest.raises(DTypeError, match="list"):
        x.numpy(out=[0.0])


def test_a_function_gives_the_values_once_when_they_are_needed(interpreter):
    calls = []

    def read():
        calls.append(1)
        return np.arange(6, dtype=np.int32)

    x = zyx.Tensor.from_callback((2, 3), "int32", read)
    y = x[1:] * 2
    assert not calls
    assert y.tolist() == [[6, 8, 10]]
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert calls == [1]
    assert zyx.Tensor.from_callback(2, "uint8", lambda: b"ab").tolist() == [97, 98]
    assert zyx.Tensor.from_callback(0, "uint8", lambda: 1 / 0).tolist() == []


def test_a_function_that_gives_something_else_is_an_error(interpreter):
    with pytest.raises(FormatError, match="3 bytes, not 8"):
        zyx.Tensor.from_callback(2, "float32", lambda: b"abc").numpy()
    with pytest.raises(FormatError, match="list"):
        zyx.Tensor.from_callback(2, "float32", lambda: [1.0, 2.0]).numpy()
    with pytest.raises(ArgumentError, match="bytes"):
        zyx.Tensor.from_callback(2, "float32", b"12345678")
    attempts = iter([b"", b"12345678"])
    x = zyx.Tensor.from_callback(1, "int64", lambda: next(attempts))
    with pytest.raises(FormatError):
        x.numpy()
    assert x.item() == int.from_bytes(b"12345678", "little")


def test_all_tensors_are_computed_together():
    zyx.realize_all()
    kept = [zyx.ones(3) + i for i in range(3)]
    deep = {"x": kept[0] * 5}
    assert not any(x.is_realized for x in (*kept, deep["x"]))
    zyx.realize_all()
    assert all(x.is_realized for x in (*kept, deep["x"]))
    with pytest.raises(TraceError, match="realize_all"):
        zyx.jit(lambda x: zyx.realize_all() or x)(kept[0])


def test_the_graph_is_printed(capsys):
    x = zyx.Tensor([1.0, 2.0])
    zyx.print_graph(x.exp() + x)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("return %")
    assert any("exp" in line for line in lines)


def test_dtypes_of_devices():
    assert zyx.supports_dtype("float32")
    assert zyx.supports_dtype(zyx.float32, zyx.default_device())
    with pytest.raises(NoDeviceError, match="nowhere"):
        zyx.supports_dtype("float32", "nowhere")
    with pytest.raises(DTypeError, match="float33"):
        zyx.supports_dtype("float33")


def test_what_was_closed_says_so_and_new_tensors_work():
    runtime = open_runtime("interpreter")
    with use(runtime):
        x = zyx.Tensor([1.0, 2.0])
        y, z = x + 1, zyx.ones(2) * 3
        kept = zyx.Tensor([5.0])
        kept.realize()
        zyx.close()
        for lost in (x, y, kept):
            with pytest.raises(StateError, match=r"zyx\.close"):
                lost.numpy()
        assert z.tolist() == [3.0, 3.0]
        assert (zyx.Tensor([1.0]) + 1).tolist() == [2.0]
        zyx.close()
        zyx.close()
        assert current() is runtime
    close_under(runtime)


def test_what_another_runtime_holds_outlives_a_close():
    runtime, other = open_runtime("interpreter"), open_runtime("interpreter")
    with use(other):
        x = zyx.Tensor([1.0, 1.0])
        x.realize()
        y = zyx.fft.fft(x).real
    with use(runtime):
        zyx.Tensor([1.0]).realize()
        zyx.close()
    with use(other):
        assert x.tolist() == [1.0, 1.0]
        assert y.tolist() == [2.0, 0.0]
    close_under(other)
    close_under(runtime)


def test_tables_and_random_words_are_made_again_after_a_close():
    runtime = open_runtime("interpreter")
    with use(runtime):
        zyx.manual_seed(3)
        before = [zyx.rand(4).tolist() for _ in range(2)]
        zyx.manual_seed(3)
        after = []
        for _ in range(2):
            assert zyx.fft.fft(zyx.Tensor([1.0, 1.0, 1.0, 1.0])).real.tolist() == [4.0, 0.0, 0.0, 0.0]
            after.append(zyx.rand(4).tolist())
            zyx.close()
        assert after == before
    close_under(runtime)


def test_passes_are_timed():
    runtime = open_runtime("interpreter")
    with use(runtime):
        with zyx.profile(passes=True) as found:
            (zyx.Tensor([[1.0, 2.0]]) * 3.25 - 7.5).sin().sum(axis=1).numpy()
        rows = found.passes()
        with zyx.profile() as without:
            (zyx.Tensor([[1.0, 2.0, 3.0]]) * 3.5 - 1.5).cos().numpy()
    runtime.close()
    assert {"simplify", "eliminate_dead_code"} <= {row.name for row in rows}
    assert all(row.calls > 0 and row.seconds >= 0 for row in rows)
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)
    assert "PASS" in str(found)
    assert found.as_json()["passes"][0]["name"] == rows[0].name
    assert "PASS" not in str(without)
    assert "passes" not in without.as_json()
