"""Patterns of texts are matched in bounded time, by RE2 where it is installed, else by Python's engine."""

import importlib.util
import sys
import time

import pytest

from zyx.errors import FormatError, UnsupportedError

pytest.importorskip("onnx", reason="onnx, whose operators these are, is not installed")

from zyx.io.onnx.patterns import matcher


@pytest.fixture(params=["re2", "re"])
def engine(request, monkeypatch):
    if request.param == "re":
        monkeypatch.setitem(sys.modules, "re2", None)
    elif importlib.util.find_spec("re2") is None:
        pytest.skip("google-re2 is not installed")
    return request.param


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"www\.[\w.-]+\.\bcom\b", ["www.google.com"], ["www.facebook.org", "www.com"]),
        (r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)", ["account@gmail.com"], ["account@hotmail.com"]),
        (r"[ab]+c?", ["abab", "aac"], ["c", "abcc"]),
        (r"[^]*+|?]{2}", ["xy"], ["x]", "x"]),
        (r"(?i)A(?:b|c)(?P<last>\))", ["aB)", "AC)"], ["ab"]),
        (r"\w*?", ["abc", ""], ["\N{LATIN SMALL LETTER E WITH ACUTE}", "a b"]),
    ],
)
def test_texts_match_as_a_whole(engine, pattern, matching, others):
    matches = matcher(pattern)
    assert all(map(matches, matching))
    assert not any(map(matches, others))


CATASTROPHIC = [
    (r"(a*)*b", "a" * 5000),
    (r"(a|aa)+b", "a" * 5000),
    (r"(?:a+)+$", "a" * 5000 + "!"),
    (r"(x+x+){2,}y", "x" * 5000),
    (r"a*a*a*a*a*a*b", "a" * 5000),
    ("a?" * 40 + "a" * 40, "a" * 39),
    ("(a|a)" * 40 + "b", "a" * 40),
    (r"([a-z]|[a-z])*?[0-9]", "a" * 5000),
]


@pytest.mark.parametrize(("pattern", "text"), CATASTROPHIC)
def test_no_pattern_takes_long(engine, pattern, text):
    begin = time.perf_counter()
    if engine == "re2":
        assert not matcher(pattern)(text)
    else:
        with pytest.raises(UnsupportedError, match="pip install google-re2"):
            matcher(pattern)(text)
    assert time.perf_counter() - begin < 2


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?=a)a", r"(?!b)a", r"(?<=a)b", r"(?<!a)b", r"(?P<n>a)(?P=n)"])
def test_what_re2_lacks_is_no_pattern(engine, pattern):
    with pytest.raises(FormatError, match="no pattern of RE2"):
        matcher(pattern)


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", "*", "(" * 5000])
def test_what_is_no_pattern_is_refused(engine, pattern):
    with pytest.raises(FormatError, match="is no pattern"):
        matcher(pattern)


def test_long_patterns_are_refused(engine):
    with pytest.raises(FormatError, match="10001 letters"):
        matcher("a" * 10_001)
