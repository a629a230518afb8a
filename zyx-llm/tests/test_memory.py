"""Devices with too little memory: what errors say of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import zyx
from zyx.errors import AllocationError
from zyx_llm import load
from zyx_llm.model.memory import free_bytes, size_text

sys.path.insert(0, str(Path(__file__).parent))

import networks
from test_packed import save as save_packed


@pytest.fixture
def limit(monkeypatch):
    """Return what lets so many bytes more be allocated, of the memory that the default device has."""
    from zyx.runtime.runtime import current

    device = zyx.default_device()
    pool = current().device(device).memory_pool

    def set_limit(nbytes):
        # What is kept to be used again goes where there is no room, and would be room then.
        with pytest.raises(AllocationError):
            zyx.zeros((1 << 42,)).realize()
        monkeypatch.setattr(pool, "capacity_bytes", pool.capacity_bytes - free_bytes(device) + nbytes)

    return set_limit


def test_sizes_are_written_with_a_unit():
    assert [size_text(n) for n in (7, 2500, 538e6, 98.44e6, 7.3e9, 1234e9)] == [
        "7 bytes", "2.5 kB", "538 MB", "98.44 MB", "7.3 GB", "1234 GB",
    ]  # fmt: skip


def test_weights_say_as_what_they_would_fit(tmp_path, monkeypatch, limit):
    file = save_packed(tmp_path / "blocks.gguf", "Q8_0", monkeypatch)
    sizes = [load(file, dtype=dtype).network.weight_bytes for dtype in (None, zyx.float16, zyx.float32)]
    limit(sizes[1] + sizes[0])
    with pytest.raises(AllocationError, match=rf"the weights take {size_text(sizes[2])} in float32 of") as caught:
        load(file, dtype=zyx.float32)
    assert f"--dtype float16, {size_text(sizes[1])}, or --dtype packed, " in str(caught.value)
    assert str(caught.value).endswith("would do")
    limit(sizes[0] // 2)
    with pytest.raises(AllocationError, match=r"the weights take .* in packed of .*; the least is "):
        load(file)


def test_keys_and_values_say_for_how_many_tokens_there_is_room(tmp_path, limit):
    model = load(networks.save(tmp_path / "small.gguf"))
    session = model.session()
    written = list(session.generate([5, 6, 7], 4))
    each, least = session.cache_bytes // 256, session.cache_bytes  # of 256 places
    other = model.session()
    list(other.generate([5, 6, 7], 2))
    limit(least // 2 + each)
    with pytest.raises(AllocationError, match=r"keys and values for 256 places take 65\.54 kB in float32 of 33\.02 kB"):
        model.session()
    # It is as it was where it cannot grow, and goes on when there is room.
    limit(least + each)
    with pytest.raises(
        AllocationError, match="--context 257 with --cache-dtype float32 or --context 770 with --cache-"
    ):
        session.feed([9] * 400)
    assert session.length == len(session.tokens)
    limit(1 << 30)
    assert list(session.generate([9] * 400, 3)) == list(
        model.session().generate([*other.tokens[:3], *written[:3], *([9] * 400)], 3)
    )
