"""Say when somebody speaks in a recording.

    pip install --no-deps silero-vad==6.2.3
    python examples/voice_activity.py talk.wav --device c

The network reads windows of 32 ms and carries a state on, so that a stream is read as it comes. Here it is read from a
WAV file of 8 or 16 kHz, eight windows at a time.
"""

import argparse

import numpy as np
from inputs import in_wheel, recording

import zyx
import zyx.io.onnx

NETWORK = "silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx"
BLOCK = 8  # windows that are read at a time: a quarter of a second
STARTS, ENDS = 0.5, 0.35  # speech begins where it is this likely, and ends where it is less likely than that ..
SILENCE_S, SPEECH_S = 0.1, 0.25  # .. for so long; what is shorter than this is none


def reader(network, rate):
    """Return a function of a block of windows and a state: how likely each window has speech, and the next state."""

    def read(windows, state):
        found = []
        for window in range(BLOCK):
            one, state = network(windows[window : window + 1], state, np.array(rate))
            found.append(one)
        return found, state

    return read


def likely(read, samples, rate):
    """Return how likely each window of 32 ms has speech, as float32 in [0, 1]."""
    size, before = rate * 32 // 1000, rate * 4 // 1000
    padded = np.pad(samples, (before, -len(samples) % (BLOCK * size)))  # a window is read with the 4 ms before it
    windows = np.lib.stride_tricks.sliding_window_view(padded, before + size)[::size]
    state, found = zyx.zeros((2, 1, 128)), []
    for start in range(0, len(windows), BLOCK):
        block, state = read(zyx.Tensor(windows[start : start + BLOCK]), state)
        found += block  # nothing waits for these to be computed until all are asked for
    return np.concatenate([np.asarray(one)[0] for one in found])[: -(-len(samples) // size)]


def segments(likely):
    """Return pairs of windows, the first of a stretch of speech and the one after its last."""
    found, start, silent = [], None, None
    for window, now in enumerate(likely):
        if now >= STARTS:
            start, silent = window if start is None else start, None
        elif start is not None and now < ENDS:
            silent = window if silent is None else silent
            if (window + 1 - silent) * 0.032 >= SILENCE_S:
                found.append((start, silent))
                start = silent = None
    if start is not None:
        found.append((start, len(likely) if silent is None else silent))
    return [(start, end) for start, end in found if (end - start) * 0.032 >= SPEECH_S]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a WAV file of 8 or 16 kHz, 16 bits")
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    samples, rate = recording(options.file, (8_000, 16_000))
    with zyx.device(options.device):
        # The first block is traced, and the others replay it in one go each.
        read = zyx.jit(reader(zyx.io.onnx.load(in_wheel(*NETWORK)), rate))
        found = segments(likely(read, samples, rate))
    for start, end in found:
        print(f"{start * 0.032:8.2f} s to {min(end * 0.032, len(samples) / rate):8.2f} s")
    print(f"{len(found)} stretches of speech in {len(samples) / rate:.2f} s")


if __name__ == "__main__":
    main()
