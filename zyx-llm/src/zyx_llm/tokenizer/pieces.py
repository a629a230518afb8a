"""The bytes that a token stands for, by how a vocabulary writes them.

Byte-level vocabularies write each byte as one printable character: those of Latin-1 that can be seen as they are, and
the others, in order, from U+0100 on. SentencePiece writes a space as U+2581, and single bytes as ``<0x0A>``.
WordPiece writes ## before what goes on within a word.
"""

from __future__ import annotations

import re
from typing import Final

SPACE: Final = "\u2581"
#: What WordPiece writes before what goes on within a word.
INNER: Final = "##"

_SEEN: Final = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN: Final = sorted({*range(256)} - {*_SEEN})
_BYTES: Final = {chr(byte): byte for byte in _SEEN} | {chr(256 + i): byte for i, byte in enumerate(_HIDDEN)}
_ONE_BYTE: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_level(piece: str) -> bytes:
    """Return the bytes of a piece of a byte-level vocabulary; those of the text, if it has other characters."""
    try:
        return bytes([_BYTES[character] for character in piece])
    except KeyError:
        return piece.encode(errors="replace")


def sentence_piece(piece: str) -> bytes:
    """Return the bytes of a piece of SentencePiece."""
    if found := _ONE_BYTE.fullmatch(piece):
        return bytes([int(found[1], 16)])
    return piece.replace(SPACE, " ").encode(errors="replace")


def word_piece(piece: str) -> bytes:
    """Return the bytes of a piece of WordPiece; one that begins a word has a space before it."""
    return (piece[2:] if piece.startswith(INNER) else f" {piece}").encode(errors="replace")
