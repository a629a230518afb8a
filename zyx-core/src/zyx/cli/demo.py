"""``zyx demo``: train a small network on handwritten digits, save it, load it, and let it read.

The digits are the 1797 images of 8 x 8 pixels that scikit-learn brings along (Alpaydin and Kaynak, "Optical
recognition of handwritten digits", UCI repository, 1998). A fifth of them, chosen by the seed, is held out for the
test.
"""

from __future__ import annotations

import argparse
import tempfile
import textwrap
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from zyx import io, nn, optim
from zyx.autograd import Tape
from zyx.errors import SettingsError
from zyx.functions.losses import cross_entropy
from zyx.jit import Jit, jit
from zyx.plugins.choose import choose_device
from zyx.runtime.runtime import current
from zyx.runtime.steps import LaunchStep
from zyx.tensor.generator import manual_seed
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

Array = npt.NDArray[Any]

_BATCH: Final = 64
_GREATEST_PIXEL: Final = 16.0
_SHADES: Final = " .:-=+*#%@"
_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class DigitImages:
    """Images ``(N, 1, 8, 8)`` of float32 from 0 to 1, and what they show, 0 to 9, int64."""

    images: Array
    labels: Array


class DigitClassifier(nn.Module):
    """Two convolutions, and two linear layers."""

    def __init__(self) -> None:
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return ``(N, 10)`` logits of images ``(N, 1, 8, 8)``."""
        logits: Tensor = self.layers(images)
        return logits


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--epochs", type=_positive, default=20, help="how often each image is seen (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run (%(default)s)")
    parser.add_argument("--seeds", type=_positive, default=1, help="number of runs, with this and the next seeds")
    parser.add_argument("--device", help="where to compute; the default device if it is not named")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the trained network in FILE.safetensors")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return int(text)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Do it."""
    digits = load_digits()
    runtime = current()
    choice = choose_device(arguments.device, runtime.backends)
    console.print(f"device {choice.device.name}, since {choice.reason}")
    with runtime.default(choice.device.name):
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        runs = [_one_run(digits, seed, arguments.epochs, console) for seed in seeds]
        trained, test, read = runs[-1]
        for line in kernels(trained.step, console.width):
            console.print(line)
        status = _check_saved(trained.network, test, read, arguments.save, console)
    console.print("")
    for line in drawing(test.images[:_SHOWN], read[:_SHOWN], test.labels[:_SHOWN]):
        console.print(line)
    if len(runs) > 1:
        mean = float(np.mean([np.mean(read == test.labels) for _, test, read in runs]))
        console.print(f"\nmean test accuracy of {len(runs)} runs: {mean:.2%}")
    return status


def load_digits() -> DigitImages:
    """Return all digits.

    Raises:
        SettingsError: scikit-learn is not installed.
    """
    try:
        from sklearn import datasets
    except ImportError as error:
        raise SettingsError(
            "the digits come with scikit-learn, which is not installed; run: pip install 'zyx-core[demo]'"
        ) from error
    images, labels = datasets.load_digits(return_X_y=True)
    return DigitImages(
        (np.asarray(images, np.float32) / np.float32(_GREATEST_PIXEL)).reshape(-1, 1, 8, 8),
        np.asarray(labels, np.int64),
    )


def split(digits: DigitImages, seed: int) -> tuple[DigitImages, DigitImages]:
    """Return four fifths to train on, and one fifth to test on."""
    order = np.random.default_rng(seed).permutation(len(digits.labels))
    held_out = len(order) // 5
    train, test = order[held_out:], order[:held_out]
    return DigitImages(digits.images[train], digits.labels[train]), DigitImages(
        digits.images[test], digits.labels[test]
    )


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained network.

    Attributes:
        network: The network.
        step: The traced step that trained it.
        images_per_s: Images seen a second, from the second step on.
    """

    network: DigitClassifier
    step: Jit[[Tensor, Tensor], Tensor]
    images_per_s: float


def train(digits: DigitImages, epochs: int, seed: int, tick: Callable[[int, float], object]) -> Trained:
    """Train a network on `digits`, and call `tick` with the number of each epoch that is done and its last loss."""
    manual_seed(seed)
    network = DigitClassifier().train()
    steps = epochs * (len(digits.labels) // _BATCH)
    optimizer = optim.AdamW(network.parameters(), lr=optim.OneCycleLR(4e-3, steps))

    @jit
    def step(images: Tensor, labels: Tensor) -> Tensor:
        with Tape() as tape:
            loss = cross_entropy(network(images), labels)
        optimizer.step(tape.gradient(loss, optimizer.params))
        return loss

    started, seen = 0.0, 0
    for epoch in range(epochs):
        loss = None
        for batch in _batches(digits, np.random.default_rng((seed, epoch))):
            loss = step(Tensor(batch.images), Tensor(batch.labels))
            if started:
                seen += len(batch.labels)
            else:  # the first step is traced and compiled
                current().synchronize()
                started = time.perf_counter()
        assert loss is not None  # there are more images than a batch has
        tick(epoch + 1, loss.item())
    return Trained(network.eval(), step, seen / (time.perf_counter() - started))


def _batches(digits: DigitImages, random: np.random.Generator) -> Iterator[DigitImages]:
    """Yield all digits but a rest, in random order, each moved by at most one pixel."""
    order = random.permutation(len(digits.labels))
    padded = np.pad(digits.images, [(0, 0), (0, 0), (1, 1), (1, 1)])
    for start in range(0, len(order) - _BATCH + 1, _BATCH):
        chosen = order[start : start + _BATCH]
        down, right = random.integers(0, 3, 2)
        yield DigitImages(padded[chosen, :, down : down + 8, right : right + 8], digits.labels[chosen])


def predict(network: DigitClassifier, digits: DigitImages) -> Array:
    """Return what `network` reads."""
    logits: Tensor = network(Tensor(digits.images))
    return logits.argmax(axis=1).numpy()


def _one_run(digits: DigitImages, seed: int, epochs: int, console: Console) -> tuple[Trained, DigitImages, Array]:
    """Train and test; return what was trained, the digits held out, and what it reads of these."""
    training, test = split(digits, seed)
    started = time.perf_counter()
    with current().trace.bar("training", epochs, after_s=0.0) as bar:

        def tick(epoch: int, loss: float) -> None:
            bar.advance(said=f"loss {loss:.4f}")
            if not console.is_terminal and (epoch % 5 == 0 or epoch == epochs):
                console.print(f"epoch {epoch} of {epochs}: loss {loss:.4f}")

        trained = train(training, epochs, seed, tick)
    seconds = time.perf_counter() - started
    read = predict(trained.network, test)
    accuracy = float(np.mean(read == test.labels))
    console.print(
        f"seed {seed}: {len(training.labels)} images, {epochs} epochs in {seconds:.1f} s "
        f"({trained.images_per_s:,.0f} images/s after the first step), test accuracy "
        f"{accuracy:.2%} of {len(test.labels)}"
    )
    return trained, test, read


def kernels(step: Jit[..., Any], width: int) -> list[str]:
    """Return lines that say how many kernels one run of a traced function launches, and which."""
    steps = [part for entry in step.traces for part in entry.plan.steps if isinstance(part, LaunchStep)]
    names = Counter(part.program.name for part in steps)
    listed = ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in names.items())
    indent = "    "
    wrapped = textwrap.wrap(
        listed, max(width, 40), initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )
    return [f"one step is {len(steps)} kernels:", *wrapped]


def _check_saved(network: DigitClassifier, test: DigitImages, read: Array, path: Path | None, console: Console) -> int:
    """Save the network, load it into a new one, and compare what the two read; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "digits.safetensors" if path is None else path.with_suffix(".safetensors")
        io.save(target, network, {"network": "digits"})
        loaded = DigitClassifier().eval()
        loaded.load_state_dict(io.load(target))
        same = np.array_equal(predict(loaded, test), read)
        kept = f"saved {target.stat().st_size:,} bytes to {target if path is not None else 'a temporary file'}"
    console.print(f"{kept}; loaded into a new network, it reads {'the same' if same else 'something else'}")
    return 0 if same else 1


def drawing(images: Array, read: Array, labels: Array) -> list[str]:
    """Return the lines of a picture of digits side by side, with what was read below them."""
    rows = []
    for row in range(images.shape[-2]):
        cells = []
        for image in images[:, 0]:
            shades = (image[row] * (len(_SHADES) - 1)).round().astype(int)
            cells.append("".join(_SHADES[shade] * 2 for shade in shades))
        rows.append("  ".join(cells))
    width = 2 * images.shape[-1]
    words = [f"read {a}" if a == b else f"read {a}, is {b}" for a, b in zip(read, labels, strict=True)]
    return [*rows, "  ".join(word.center(width) for word in words).rstrip()]
