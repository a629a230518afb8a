"""Read the text in a picture, line by line.

    pip install --no-deps rapidocr==3.10.0
    pip install opencv-python-headless
    python examples/read_text.py page.png --device c

One network says of each pixel how likely it is of a text; OpenCV makes boxes of that. Another network reads what is in
a box.
"""

import argparse

import numpy as np
from inputs import in_wheel

import zyx
import zyx.io.onnx

try:
    import cv2
except ModuleNotFoundError:
    raise SystemExit("OpenCV, which reads pictures, is missing: pip install opencv-python-headless") from None

WHEEL, MODELS = "rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_{}_small.onnx"
LONGEST, HEIGHT, WIDTH = 960, 48, 320  # pixels: of a picture at most, of a line, and what its length is a multiple of


def scaled(picture):
    """Return the pixels (height, width, 3) of 0 to 255 as the networks take them: (3, height, width) from -1 to 1."""
    return picture.transpose(2, 0, 1).astype(np.float32) / 127.5 - 1.0


def boxes(detect, picture):
    """Return the corners (4, 2) of boxes with a line each: from the upper left one in the direction of the clock."""
    height, width = picture.shape[:2]
    shrink = min(1.0, LONGEST / max(height, width))
    size = [max(32, round(side * shrink / 32) * 32) for side in (width, height)]
    likely = np.asarray(detect(scaled(cv2.resize(picture, size))[None]))[0, 0]
    is_text = cv2.dilate((likely > 0.3).astype(np.uint8), np.ones((2, 2), np.uint8))
    found = []
    for outline in cv2.findContours(is_text, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0]:
        centre, (across, down), angle = cv2.minAreaRect(outline)
        inside = cv2.fillPoly(np.zeros_like(is_text), [outline], 1)
        if min(across, down) < 3 or cv2.mean(likely, inside)[0] < 0.5:
            continue
        more = 1.6 * across * down / (across + down)  # the network marks less of a line than its letters cover
        corners = cv2.boxPoints((centre, (across + more, down + more), angle))
        turns = corners - centre
        corners = corners[np.argsort(np.arctan2(turns[:, 1], turns[:, 0]))] * (np.array([width, height]) / size)
        found.append(np.roll(corners, -corners.sum(1).argmin(), axis=0))  # lines rise or fall by less than 45 degrees
    return found


def in_order(corners):
    """Return boxes from the top, and from the left those that lie beside one another."""
    rows = []
    for box in sorted(corners, key=lambda box: box[:, 1].mean()):
        same = rows and box[:, 1].mean() - rows[-1][-1][:, 1].mean() < 0.5 * np.linalg.norm(box[3] - box[0])
        rows[-1:] = [[*rows[-1], box]] if same else [*rows[-1:], [box]]
    return [box for row in rows for box in sorted(row, key=lambda box: box[:, 0].min())]


def line(picture, box):
    """Return what a box of a picture has, laid straight and as high as the network reads it."""
    across = np.linalg.norm(box[1] - box[0]) / np.linalg.norm(box[3] - box[0])
    width = max(1, round(HEIGHT * across))
    straight = np.array([[0, 0], [width, 0], [width, HEIGHT], [0, HEIGHT]], np.float32)
    turn = cv2.getPerspectiveTransform(box.astype(np.float32), straight)
    cut = scaled(cv2.warpPerspective(picture, turn, (width, HEIGHT), None, cv2.INTER_CUBIC, cv2.BORDER_REPLICATE))
    return np.pad(cut, ((0, 0), (0, 0), (0, -width % WIDTH)))  # few widths, for each of which kernels are made


def letters(recognise):
    """Return what the columns of a network that reads lines stand for, from 1 on."""
    return [*recognise.metadata["character"].split("\n"), " "]


def text(recognise, known, cut):
    """Return the text of a line. Each column is a letter or none; a letter that goes on is one."""
    columns = np.asarray(recognise(cut[None]))[0].argmax(1)
    starts = np.flatnonzero((columns != 0) & (np.diff(columns, prepend=0) != 0))
    return "".join(known[columns[start] - 1] for start in starts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a picture in any format that OpenCV reads")
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    picture = cv2.imread(options.file)
    if picture is None:
        raise SystemExit(f"{options.file} cannot be read as a picture")
    paths = [in_wheel(WHEEL, MODELS.format(which)) for which in ("det", "rec")]
    detect, recognise = (zyx.io.onnx.load(path, options.device) for path in paths)
    known = letters(recognise)
    for box in in_order(boxes(detect, picture)):
        print(text(recognise, known, line(picture, box)))


if __name__ == "__main__":
    main()
