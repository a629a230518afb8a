"""Networks have the same losses on the default device as on the interpreter, step by step while they are trained.

Two routes to one number: the default device compiles one program for a whole step, with schedules of its own, and the
interpreter runs each kernel with NumPy. What it found once is written down here, so that both are held to the same.
"""

import importlib.util

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.cli.demo import DigitClassifier, load_digits
from zyx.nn import functional as F

pytestmark = pytest.mark.usefixtures("runtime")

TOLERANCE = 1e-4


class Trainer:
    """A network, what it is given and what it is to find, and how it is trained; all fixed by seeds."""

    def __init__(self, network, loss, optimizer, *data):
        self.network, self.loss, self.optimizer = network.train(), loss, optimizer
        self.data = [zyx.Tensor(array) for array in data]

    def losses(self, steps):
        @zyx.jit
        def step(*data):
            with zyx.Tape() as tape:
                loss = self.loss(self.network, *data)
            gradients = tape.gradient(loss, self.optimizer.params)
            self.optimizer.step(gradients)
            return loss

        return [step(*self.data).item() for _ in range(steps)]


def digits():
    """Return the network of the demo on the first of its images, which scikit-learn brings."""
    found = load_digits()
    return convolutions(found.images[:8], found.labels[:8])


def noise():
    """Return the network of the demo on noise, for where scikit-learn is not installed."""
    random = np.random.default_rng(0)
    return convolutions(random.random((8, 1, 8, 8), np.float32), random.integers(0, 10, 8))


def convolutions(images, labels):
    """Return convolutions, batch normalisation, pooling and dropout; AdamW with a schedule."""
    network = DigitClassifier()

    def loss(network, images, labels):
        return F.cross_entropy(network(images), labels)

    return Trainer(network, loss, optim.AdamW(network.parameters(), lr=optim.OneCycleLR(4e-3, 8)), images, labels)


def transformer():
    """Return a layer of an encoder: attention, layer norms, GELU, dropout; Adam."""
    random = np.random.default_rng(1)
    network = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True)
    x, y = random.standard_normal((2, 2, 7, 16)).astype(np.float32)

    def loss(network, x, y):
        return F.mse_loss(network(x), y)

    return Trainer(network, loss, optim.Adam(network.parameters(), lr=1e-2), x, y)


def lstm():
    """Return two layers of an LSTM, read at every step; SGD with momentum."""
    random = np.random.default_rng(2)
    network = nn.LSTM(5, 9, num_layers=2, batch_first=True)
    x = random.standard_normal((3, 6, 5)).astype(np.float32)
    y = random.standard_normal((3, 6, 9)).astype(np.float32)

    def loss(network, x, y):
        return F.mse_loss(network(x)[0], y)

    return Trainer(network, loss, optim.SGD(network.parameters(), lr=0.3, momentum=0.9), x, y)


#: Losses of the first steps, as the interpreter found them.
RECORDED = {
    digits: [2.3089995, 2.2892907, 2.0920734, 1.8193345, 1.5416117, 1.3348618],
    noise: [2.3164427, 2.2761118, 1.9704003, 1.5672451, 1.3771675, 1.2381154],
    transformer: [1.7125925, 1.4863336, 1.3521727, 1.2258227, 1.1535639, 1.0191373, 0.9429039, 0.8824655, 0.7807508],
    lstm: [1.0318849, 1.0286901, 1.0233181, 1.0170878, 1.0111091, 1.0059133, 1.0015041, 0.9976516, 0.9941084],
}


def losses(trainer, device, steps):
    with zyx.device(device):
        zyx.manual_seed(5)
        return trainer().losses(steps)


HAS_DIGITS = importlib.util.find_spec("sklearn") is not None


@pytest.mark.parametrize(
    "trainer", [digits if HAS_DIGITS else noise, transformer, lstm], ids=lambda trainer: trainer.__name__
)
def test_losses_are_those_of_the_interpreter(trainer, runtime):
    recorded = RECORDED[trainer]
    found = {device: losses(trainer, device, len(recorded)) for device in (runtime.default_device, "interpreter:0")}
    for device, values in found.items():
        print(f"{trainer.__name__} on {device}: {', '.join(f'{value:.7f}' for value in values)}")
    np.testing.assert_allclose(found["interpreter:0"], recorded, TOLERANCE)
    np.testing.assert_allclose(found[runtime.default_device], found["interpreter:0"], TOLERANCE)
    assert recorded[-1] < recorded[0]
