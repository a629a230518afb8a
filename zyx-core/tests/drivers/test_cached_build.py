"""Programs that are kept between runs."""

from __future__ import annotations

import pytest

from zyx.drivers.cache import MemoryCache
from zyx.drivers.cached_build import digest, load_or_build


class Refused(Exception):
    """The driver does not take a binary."""


class Compiler:
    """Counts; its programs are texts."""

    def __init__(self):
        self.builds = 0

    def build(self):
        self.builds += 1
        return "program", b"image"

    def load(self, image):
        if image != b"image":
            raise Refused("damaged")
        return "loaded"


def make(compiler, cache, key="key"):
    return load_or_build(cache, key, "kernel add on list:0", compiler.load, compiler.build, Refused)


def test_without_a_cache_it_is_built_every_time():
    compiler = Compiler()
    assert [make(compiler, None) for _ in range(2)] == ["program"] * 2
    assert compiler.builds == 2


def test_it_is_built_once_for_a_key():
    compiler, cache = Compiler(), MemoryCache()
    assert [make(compiler, cache), make(compiler, cache), make(compiler, cache, "other")] == [
        "program", "loaded", "program",
    ]  # fmt: skip
    assert compiler.builds == 2


def test_what_the_driver_does_not_take_is_built_again_and_kept(caplog):
    compiler, cache = Compiler(), MemoryCache()
    cache.put("key", b"something else")
    with caplog.at_level("INFO", "zyx"):
        assert make(compiler, cache) == "program"
    assert "kernel add on list:0: the driver does not take what the cache has of it: damaged" in caplog.text
    assert make(compiler, cache) == "loaded"


def test_what_cannot_be_built_is_not_kept():
    cache = MemoryCache()

    def refuse():
        raise OSError("no compiler")

    with pytest.raises(OSError, match="no compiler"):
        load_or_build(cache, "key", "kernel", lambda image: image, refuse, Refused)
    assert cache.get("key") is None


def test_a_digest_tells_every_part_apart():
    digests = {digest("a", "bc"), digest("ab", "c"), digest("a", "b", "c"), digest("abc")}
    assert len(digests) == 4
    assert {len(text) for text in digests} == {64}
