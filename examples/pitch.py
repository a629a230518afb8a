"""Say which notes are sung or played in a recording of one voice or instrument.

    pip install --no-deps swift-f0==0.3.0
    python examples/pitch.py song.wav --device c

The network gives a pitch for each 16 ms, and how sure it is that there is one. Frames of the same note make a line.
"""

import argparse
from itertools import pairwise

import numpy as np
from inputs import in_wheel, recording

import zyx
import zyx.io.onnx

NETWORK = "swift-f0==0.3.0", "swift_f0/model.onnx"
LOWEST, HIGHEST = 46.875, 2093.75  # Hz, between which the network finds pitches
FRAME = 256  # samples
AROUND = 11  # frames before and after one that the network looks at
PIECE = 1875  # frames that are read at a time, 30 s
NAMES = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"]


def pitches(network, samples):
    """Return the pitch of each frame in Hz, and how sure it is, in [0, 1]."""
    count, found = max(1, len(samples) // FRAME), []
    for start in range(0, count, PIECE):
        first, end = max(0, start - AROUND), min(start + PIECE, count)
        last = len(samples) if end == count else (end + AROUND) * FRAME
        piece = samples[None, first * FRAME : last]
        pitch, sure = network(piece, np.float32(LOWEST), np.float32(HIGHEST))
        found.append([np.asarray(each)[0, start - first : end - first] for each in (pitch, sure)])
    pitch, sure = (np.concatenate(each) for each in zip(*found, strict=True))
    loudest = np.abs(np.resize(samples, (count, FRAME))).max(1)
    return pitch, np.where(loudest < 1e-3, 0.0, sure)  # of silence the network would say anything


def notes(pitch, sure):
    """Return (first frame, one after the last, note) of frames in a row with the same one, counted in semitones.

    69 is A4, of 440 Hz. Notes of less than 3 frames are left out.
    """
    semitones = np.where(sure >= 0.5, np.rint(69 + 12 * np.log2(pitch / 440)), -1).astype(int)
    edges = [0, *(np.flatnonzero(np.diff(semitones)) + 1), len(semitones)]
    runs = [(first, last, semitones[first]) for first, last in pairwise(edges)]
    return [(first, last, note) for first, last, note in runs if note >= 0 and last - first >= 3]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a WAV file of 16 kHz, 16 bits")
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    samples, rate = recording(options.file)
    pitch, sure = pitches(zyx.io.onnx.load(in_wheel(*NETWORK), options.device), samples)
    for first, last, note in notes(pitch, sure):
        start, end, hertz = first * FRAME / rate, last * FRAME / rate, np.median(pitch[first:last])
        print(f"{start:8.2f} s to {end:8.2f} s  {hertz:8.1f} Hz  {NAMES[note % 12]}{note // 12 - 1}")


if __name__ == "__main__":
    main()
