"""Tensors in files. Start reading at `zyx.io.files`."""

from zyx.io.files import SupportsStateDict, from_file, load, read_metadata, save
from zyx.io.gguf_file import load_gguf, save_gguf
from zyx.io.numpy_file import load_npy, load_npz, save_npy, save_npz
from zyx.io.safetensors_file import load_safetensors, save_safetensors
from zyx.io.sharded import load_sharded
from zyx.io.torch_file import load_torch
from zyx.io.torch_writer import save_torch

__all__ = [
    "SupportsStateDict", "from_file", "load", "load_gguf", "load_npy", "load_npz",
    "load_safetensors", "load_sharded", "load_torch", "read_metadata", "save", "save_gguf", "save_npy",
    "save_npz", "save_safetensors", "save_torch",
]  # fmt: skip
