"""Say when somebody speaks in a recording.

    pip install --no-deps silero-vad==6.2.3
    python examples/voice_activity.py talk.wav --device c

The network reads 32 ms at a time and carries a state on, so that a stream is read as it comes. Here it is read from a
WAV file of 8 or 16 kHz.
"""

import argparse

import numpy as np
from inputs import in_wheel, recording

import zyx
import zyx.io.onnx

NETWORK = "silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx"
STARTS, ENDS = 0.5, 0.35  # speech begins where it is this likely, and ends where it is less likely than that ..
SILENCE_S, SPEECH_S = 0.1, 0.25  # .. for so long; what is shorter than this is none


def likely(network, samples, rate):
    """Return how likely each window of 32 ms has speech, as float32 in [0, 1]."""
    size, before = rate * 32 // 1000, rate * 4 // 1000
    padded = np.pad(samples, (before, -len(samples) % size))  # a window is read with the 4 ms before it
    state, found = np.zeros((2, 1, 128), np.float32), []
    for start in range(0, len(padded) - before, size):
        # The first window is traced, all others replay it. Nothing waits for a result: the state stays on the device.
        one, state = network(padded[None, start : start + before + size], state, np.array(rate))
        found.append(one)
    return np.concatenate([np.asarray(one)[0] for one in found])


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
    network = zyx.io.onnx.load(in_wheel(*NETWORK), options.device)
    found = segments(likely(network, samples, rate))
    for start, end in found:
        print(f"{start * 0.032:8.2f} s to {min(end * 0.032, len(samples) / rate):8.2f} s")
    print(f"{len(found)} stretches of speech in {len(samples) / rate:.2f} s")


if __name__ == "__main__":
    main()
