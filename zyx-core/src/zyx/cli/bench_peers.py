"""The programs of ``zyx bench`` in zyx, and in the libraries beside it as far as they are installed.

Each library computes them as its users write them: with its own function where it has one, and compiled where it
compiles. Products and convolutions are of float32 in full everywhere.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.autograd import value_and_grad
from zyx.functions.conv import conv2d
from zyx.functions.losses import cross_entropy
from zyx.jit import jit
from zyx.nn import functional
from zyx.runtime.runtime import current
from zyx.tensor.devices import synchronize
from zyx.tensor.tensor import Tensor
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Array = np.ndarray[Any, np.dtype[Any]]

#: Of the training step.
_RATE: Final = 0.1
_EPSILON: Final = 1e-5


class Peer(ABC):
    """A library on a device.

    Programs take and return arrays of the library.

    Attributes:
        name: What the table calls it.
        version: Of the library.
        on_host: Whether it computes on processors, with which devices on host memory are compared.
    """

    name: str
    version: str
    on_host: bool = True

    @abstractmethod
    def load(self, array: Array) -> Any:  # noqa: ANN401  # the arrays of somebody's library, here and below
        """Return an array of this library with the same values and dtype."""

    def prepare(self, method: str, operands: Sequence[Any]) -> Callable[[], Any]:
        """Return a function that runs a program once, and comes back when its result is there."""
        return functools.partial(getattr(self, method), *operands)

    def read(self, result: Any) -> list[Array]:  # noqa: ANN401
        """Return a result, or each array of a tuple, on the host."""
        return [self._array(each) for each in (result if isinstance(result, tuple | list) else (result,))]

    def _array(self, one: Any) -> Array:  # noqa: ANN401
        return np.asarray(one)

    # ---- the programs, which libraries with the operators of Python have in common

    def matmul(self, x: Any, y: Any) -> Any:  # noqa: ANN401
        """Return the product of two matrices."""
        return x @ y

    def row_sums(self, x: Any) -> Any:  # noqa: ANN401
        """Return the sum of each row."""
        return x.sum(-1)

    @abstractmethod
    def softmax(self, x: Any) -> Any:  # noqa: ANN401
        """Return the softmax of each row."""

    @abstractmethod
    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:  # noqa: ANN401
        """Return normalised rows."""

    @abstractmethod
    def attention(self, query: Any, key: Any, value: Any) -> Any:  # noqa: ANN401
        """Return the attention of ``(N, heads, length, width)``, without a mask."""

    @abstractmethod
    def convolution(self, x: Any, weight: Any) -> Any:  # noqa: ANN401
        """Return images ``(N, C_in, H, W)`` by filters ``(C_out, C_in, 3, 3)``, of the same height and width."""

    @abstractmethod
    def elementwise(self, x: Any, y: Any) -> Any:  # noqa: ANN401
        """Return ``tanh(x * y + x) * exp(-y * y) + max(x, 0)``."""

    @abstractmethod
    def training_step(self, x: Any, labels: Any, *weights: Any) -> Any:  # noqa: ANN401
        """Return the loss of two layers, with a ReLU between them, and the weights after a step of descent."""

    @abstractmethod
    def running_sums(self, x: Any) -> Any:  # noqa: ANN401
        """Return the sums of each row so far."""


class Numpy(Peer):
    """NumPy, of whatever dtype it is given: float64 is what all are compared with."""

    name = "numpy"
    version = np.__version__

    def load(self, array: Array) -> Array:
        return array

    def softmax(self, x: Array) -> Array:
        powers: Array = np.exp(x - x.max(-1, keepdims=True))
        powers /= powers.sum(-1, keepdims=True)
        return powers

    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        found: Array = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + _EPSILON) * weight + bias
        return found

    def attention(self, query: Array, key: Array, value: Array) -> Array:
        found: Array = self.softmax(query @ key.swapaxes(-1, -2) * x_scale(query)) @ value
        return found

    def convolution(self, x: Array, weight: Array) -> Array:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.tensordot(windows, weight, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)

    def elementwise(self, x: Array, y: Array) -> Array:
        found: Array = np.tanh(x * y + x) * np.exp(-y * y) + np.maximum(x, 0)
        return found

    def training_step(self, x: Array, labels: Array, *weights: Array) -> tuple[Any, ...]:
        first, first_bias, second, second_bias = weights
        hidden = np.maximum(x @ first + first_bias, 0)
        chances = self.softmax(hidden @ second + second_bias)
        rows = np.arange(len(labels))
        loss = -np.log(chances[rows, labels]).mean()
        chances[rows, labels] -= 1
        slopes = chances / len(labels)
        back = (slopes @ second.T) * (hidden > 0)
        gradients = (x.T @ back, back.sum(0), hidden.T @ slopes, slopes.sum(0))
        return (loss, *(weight - _RATE * slope for weight, slope in zip(weights, gradients, strict=True)))

    def running_sums(self, x: Array) -> Array:
        return x.cumsum(-1)


def x_scale(query: Any) -> float:  # noqa: ANN401
    """Return what the products of an attention are multiplied by."""
    return 1 / math.sqrt(query.shape[-1])


class Zyx(Peer):
    """zyx on one device, each program traced.

    Args:
        device: Name of the device.
    """

    version = __version__

    def __init__(self, device: str) -> None:
        opened = current().device(device)
        self.name = opened.name
        self.on_host = opened.memory_pool is current().backends.pools["host"]

    def load(self, array: Array) -> Tensor:
        return Tensor(array, device=self.name).realize()

    def prepare(self, method: str, operands: Sequence[Any]) -> Callable[[], Any]:
        traced = jit(getattr(self, method))

        def step() -> Any:  # noqa: ANN401
            result = traced(*operands)
            synchronize()
            return result

        return step

    def _array(self, one: Tensor) -> Array:
        return one.numpy()

    def softmax(self, x: Tensor) -> Tensor:
        return functional.softmax(x, -1)

    def layer_norm(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1], weight, bias, _EPSILON)

    def attention(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value)

    def convolution(self, x: Tensor, weight: Tensor) -> Tensor:
        return conv2d(x, weight, padding=1)

    def elementwise(self, x: Tensor, y: Tensor) -> Tensor:
        return (x * y + x).tanh() * (-y * y).exp() + x.relu()

    def training_step(self, x: Tensor, labels: Tensor, *weights: Tensor) -> Any:  # noqa: ANN401
        def loss_of(*given: Tensor) -> Tensor:
            first, first_bias, second, second_bias = given
            return cross_entropy((x @ first + first_bias).relu() @ second + second_bias, labels)

        loss, slopes = value_and_grad(loss_of, (0, 1, 2, 3))(*weights)
        return (loss, *(weight - _RATE * slope for weight, slope in zip(weights, slopes, strict=True)))

    def running_sums(self, x: Tensor) -> Tensor:
        return x.cumsum(-1)


class Torch(Peer):
    """PyTorch, each operation by itself.

    Args:
        device: ``cpu`` or ``cuda``.
    """

    def __init__(self, device: str) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._functional: Any = importlib.import_module("torch.nn.functional")
        self._device = device
        self._torch.backends.cudnn.allow_tf32 = False  # on by default
        self.name = f"torch {device}"
        self.version = str(self._torch.__version__)
        self.on_host = device == "cpu"

    def load(self, array: Array) -> Any:  # noqa: ANN401
        return self._torch.from_numpy(array).to(self._device)

    def prepare(self, method: str, operands: Sequence[Any]) -> Callable[[], Any]:
        call = super().prepare(method, operands)
        if self._device == "cpu":
            return call

        def step() -> Any:  # noqa: ANN401
            result = call()
            self._torch.cuda.synchronize()
            return result

        return step

    def _array(self, one: Any) -> Array:  # noqa: ANN401
        return np.asarray(one.detach().cpu())

    def softmax(self, x: Any) -> Any:  # noqa: ANN401
        return self._functional.softmax(x, -1)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:  # noqa: ANN401
        return self._functional.layer_norm(x, x.shape[-1:], weight, bias, _EPSILON)

    def attention(self, query: Any, key: Any, value: Any) -> Any:  # noqa: ANN401
        return self._functional.scaled_dot_product_attention(query, key, value)

    def convolution(self, x: Any, weight: Any) -> Any:  # noqa: ANN401
        return self._functional.conv2d(x, weight, padding=1)

    def elementwise(self, x: Any, y: Any) -> Any:  # noqa: ANN401
        return (x * y + x).tanh() * (-y * y).exp() + x.relu()

    def training_step(self, x: Any, labels: Any, *weights: Any) -> Any:  # noqa: ANN401
        leaves = [weight.detach().requires_grad_() for weight in weights]
        first, first_bias, second, second_bias = leaves
        logits = (x @ first + first_bias).relu() @ second + second_bias
        loss = self._functional.cross_entropy(logits, labels)
        slopes = self._torch.autograd.grad(loss, leaves)
        return (loss, *(weight - _RATE * slope for weight, slope in zip(weights, slopes, strict=True)))

    def running_sums(self, x: Any) -> Any:  # noqa: ANN401
        return x.cumsum(-1)


class Jax(Peer):
    """JAX, each program compiled.

    Args:
        device: ``cpu`` or ``gpu``.
    """

    def __init__(self, device: str) -> None:
        self._jax: Any = importlib.import_module("jax")
        self._device = self._jax.devices(device)[0]
        self.name = f"jax {device}"
        self.version = str(self._jax.__version__)
        self.on_host = device == "cpu"

    def load(self, array: Array) -> Any:  # noqa: ANN401
        small = array.astype(np.int32) if array.dtype.kind == "i" else array  # it has no integers of 64 bits
        return self._jax.device_put(small, self._device)

    def prepare(self, method: str, operands: Sequence[Any]) -> Callable[[], Any]:
        compiled = self._jax.jit(getattr(self, method))

        def step() -> Any:  # noqa: ANN401
            with self._jax.default_matmul_precision("highest"):
                return self._jax.block_until_ready(compiled(*operands))

        return step

    def softmax(self, x: Any) -> Any:  # noqa: ANN401
        return self._jax.nn.softmax(x, -1)

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:  # noqa: ANN401
        return self._jax.nn.standardize(x, -1, epsilon=_EPSILON) * weight + bias

    def attention(self, query: Any, key: Any, value: Any) -> Any:  # noqa: ANN401
        return self.softmax(query @ key.swapaxes(-1, -2) * x_scale(query)) @ value

    def convolution(self, x: Any, weight: Any) -> Any:  # noqa: ANN401
        return self._jax.lax.conv(x, weight, (1, 1), "SAME")

    def elementwise(self, x: Any, y: Any) -> Any:  # noqa: ANN401
        numpy = self._jax.numpy
        return numpy.tanh(x * y + x) * numpy.exp(-y * y) + numpy.maximum(x, 0)

    def training_step(self, x: Any, labels: Any, *weights: Any) -> Any:  # noqa: ANN401
        def loss_of(given: Any) -> Any:  # noqa: ANN401
            first, first_bias, second, second_bias = given
            logits = self._jax.nn.relu(x @ first + first_bias) @ second + second_bias
            chances = self._jax.nn.log_softmax(logits, -1)
            return -self._jax.numpy.take_along_axis(chances, labels[:, None], 1).mean()

        loss, slopes = self._jax.value_and_grad(loss_of)(weights)
        return (loss, *(weight - _RATE * slope for weight, slope in zip(weights, slopes, strict=True)))

    def running_sums(self, x: Any) -> Any:  # noqa: ANN401
        return x.cumsum(-1)


def others(*, accelerator: bool) -> list[Peer]:
    """Return the libraries that are installed beside zyx.

    Args:
        accelerator: Whether those that can are wanted on a GPU as well.
    """
    found: list[Peer] = [Numpy()]
    if importlib.util.find_spec("torch") is not None:
        found.append(Torch("cpu"))
        if accelerator and importlib.import_module("torch").cuda.is_available():
            found.append(Torch("cuda"))
    if importlib.util.find_spec("jax") is not None:
        found.append(Jax("cpu"))
        if accelerator and _jax_has_gpu():
            found.append(Jax("gpu"))
    return found


def _jax_has_gpu() -> bool:
    jax = importlib.import_module("jax")
    try:
        return bool(jax.devices("gpu"))
    except RuntimeError:  # how it says that it has none
        return False
