"""Tensors in files. Start reading at `zyx.io.files`."""

from zyx.io.files import SupportsStateDict, from_file, load, save
from zyx.io.safetensors_file import load_safetensors, read_metadata, save_safetensors

__all__ = [
    "SupportsStateDict", "from_file", "load", "load_safetensors", "read_metadata", "save", "save_safetensors",
]  # fmt: skip
