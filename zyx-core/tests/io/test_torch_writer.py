"""Checkpoints for PyTorch: what is written is what is read, here and there; what cannot be written is refused."""

from collections import OrderedDict

import numpy as np
import pytest

import zyx
from zyx import io, nn, optim
from zyx.errors import DTypeError, FormatError
from zyx.io.torch_file import STORAGES

pytestmark = pytest.mark.usefixtures("interpreter")


@pytest.mark.parametrize("dtype", STORAGES.values(), ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4), (1, 2, 1)])
def test_a_tensor_of_every_dtype_is_read_as_it_was_written(dtype, shape, tmp_path):
    x = zyx.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    zyx.save({"x": x}, tmp_path / "x.pt")
    found = zyx.load(tmp_path / "x.pt")["x"]
    assert (found.dtype, found.shape) == (dtype, shape)
    assert np.array_equal(found.numpy(), x.numpy())


def test_what_holds_tensors_is_read_as_it_was_written(tmp_path):
    state = {
        "numbers": [0, -1, 255, -(2**31), 2**70, 1.5, float("-inf")], "texts": ("", "\u00fc" * 300), 3: None,
        "flags": [True, False, np.True_], "of numpy": [np.float32(0.5), np.int8(-3)],
        "ordered": OrderedDict(a=1, b=OrderedDict()), "nothing": [{}, [], ()],
    }  # fmt: skip
    zyx.save(state, tmp_path / "x.pt")
    found = zyx.load(tmp_path / "x.pt")
    assert found == state
    assert type(found["ordered"]) is OrderedDict
    assert type(found["flags"][2]) is bool


def test_modules_and_optimisers_are_written_as_their_states_wherever_they_stand(tmp_path):
    model = nn.Linear(2, 3)
    optimizer = optim.Adam(model.parameters(), lr=0.25)
    zyx.save({"epoch": 4, "model": model, "rest": [optimizer]}, tmp_path / "x.ckpt")
    found = zyx.load(tmp_path / "x.ckpt")
    other = nn.Linear(2, 3)
    other.load_state_dict(found["model"])
    assert np.array_equal(other.weight.numpy(), model.weight.numpy())
    assert found["rest"][0]["lr"].item() == 0.25
    zyx.save(model, tmp_path / "alone.pth")
    assert list(zyx.load(tmp_path / "alone.pth")) == ["weight", "bias"]


def test_a_tensor_that_is_there_twice_is_written_once(tmp_path):
    x, array = zyx.zeros(1000), np.ones((4, 500))[:, ::2]
    io.save_torch(tmp_path / "x", [x, x, array, array])
    assert (tmp_path / "x").stat().st_size < x.nbytes + array.nbytes + 2000
    assert np.array_equal(zyx.load(tmp_path / "x")[3].numpy(), array)


def test_pytorch_reads_what_is_written(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch reads it where it is installed")
    model, theirs = nn.Linear(2, 3), torch.nn.Linear(2, 3)
    zyx.save({"model": model.state_dict(), "low": zyx.ones(2, dtype="bfloat16"), "epoch": 7}, tmp_path / "x.pt")
    found = torch.load(tmp_path / "x.pt", weights_only=True)
    theirs.load_state_dict(found["model"])
    assert np.array_equal(theirs.weight.detach().numpy(), model.weight.numpy())
    assert found["low"].dtype == torch.bfloat16
    assert found["epoch"] == 7


def test_what_cannot_be_written_is_refused_and_what_was_there_stays(tmp_path):
    path = tmp_path / "x.pt"
    zyx.save({"x": 1}, path)
    loop: list[object] = []
    loop.append({"again": loop})
    for state, error, text in (
        ({"x": zyx.ones(2, dtype="uint16")}, DTypeError, "have no uint16; cast it"),
        ({"x": object()}, DTypeError, "and no object; save its state"),
        ([lambda: 3], DTypeError, "and no function"),
        ({"x": 1 << 3000}, DTypeError, "376 bytes is more than the 255"),
        (loop, FormatError, "holds itself"),
    ):
        with pytest.raises(error, match=text):
            zyx.save(state, path)
    assert zyx.load(path) == {"x": 1}


def test_what_pytorch_is_told_when_it_loads_is_taken(tmp_path):
    zyx.save(obj={"x": zyx.arange(3)}, f=tmp_path / "x.pt")
    found = zyx.load(tmp_path / "x.pt", map_location="cpu", weights_only=True)
    assert found["x"].tolist() == [0, 1, 2]
    with pytest.raises(zyx.errors.ArgumentError, match="load: no argument is called devcie; did you mean device"):
        zyx.load(tmp_path / "x.pt", devcie="cpu")
