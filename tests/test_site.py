"""The reference has every public name. ``tox -e docs`` builds it, and looks whether the pages came out so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import zyx

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))  # settings and scripts, not a package

import api_pages
import check_site
import docstrings
from api_pages import PAGES


def test_every_public_name_is_on_a_page() -> None:
    assert api_pages.names_on_no_page() == []
    names = set(api_pages.all_public_names())
    assert {"zyx.sum", "zyx.Tensor.softmax", "zyx.nn.Linear", "zyx.optim.SGD", "zyx.jit", "zyx.tune"} <= names
    assert {"zyx.errors.ShapeError", "zyx.backend.DeviceInfo", "zyx.hookspecs.zyx_devices"} <= names
    assert len(names) > 1400


def test_a_name_without_a_page_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zyx, "__all__", [*zyx.__all__, "as_shape"])
    monkeypatch.setattr(zyx, "as_shape", zyx.errors.ZyxError, raising=False)
    with pytest.raises(LookupError, match="no page of the reference has as_shape"):
        api_pages.write_pages(tmp_path)


def test_each_name_of_zyx_is_on_one_page() -> None:
    names = [name for page in PAGES if page.module == "zyx" for name in api_pages.names_on(page)]
    assert len(names) == len(set(names))
    assert all(api_pages.names_on(page) for page in PAGES if page.module == "zyx")


def test_data_has_a_text_and_no_text_is_left_over() -> None:
    assert set(api_pages.DATA) <= set(api_pages.all_public_names())


def test_a_method_of_tensors_leads_to_its_function() -> None:
    assert api_pages.function_of("softmax")[0] == "softmax"
    assert api_pages.function_of("mul")[0] == "multiply"  # by habit
    assert api_pages.function_of("numpy")[0] == ""


def test_the_check_of_a_site_sees_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "searchindex.js").write_text("softmax")
    (tmp_path / "a.html").write_text('<p id="here"><a href="#here"></a><a href="b.html#there"></a>')
    (tmp_path / "b.html").write_text('<p id="there">')
    assert list(check_site.problems(tmp_path)) == []
    (tmp_path / "b.html").write_text('<script src="https://other.example/x.js"></script><a href="c.html"></a>')
    assert list(check_site.problems(tmp_path)) == [
        "a.html links to b.html#there, which has no such place",
        "b.html fetches https://other.example/x.js",
        "b.html links to c.html, which is not there",
    ]


#: How many public functions and classes lack what: none.
MOST_LACKING = {"example": 0, "shape": 0, "error": 0}


@pytest.mark.parametrize("kind", MOST_LACKING)
def test_no_more_docstrings_lack_something_than_before(kind: str) -> None:
    lacking = docstrings.lacking(kind)
    assert len(lacking) <= MOST_LACKING[kind], f"python docs/docstrings.py {kind} has the names"


def test_what_docstrings_lack_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("zyx.sinh" in docstrings.lacking(kind) for kind in MOST_LACKING)
    monkeypatch.setattr(zyx.sinh, "__doc__", "Return a number.")
    assert all("zyx.sinh" in docstrings.lacking(kind) for kind in MOST_LACKING)


def test_what_cannot_have_shapes_errors_or_an_example_does_not_lack_them() -> None:
    device, result, layer = zyx.backend.Device, zyx.linalg.QRResult, zyx.nn.Linear
    assert docstrings.is_without("example", device)  # others implement it
    assert docstrings.is_without("shape", zyx.tree.flatten)  # whatever the leaves are
    assert docstrings.is_without("shape", zyx.optim.StepLR)  # as of all schedules
    assert docstrings.is_without("error", result)  # which holds what a function has made
    assert docstrings.is_without("error", zyx.devices)  # which is given nothing
    assert not any(
        docstrings.is_without(kind, thing) for kind in MOST_LACKING for thing in (layer, zyx.add, zyx.Tensor)
    )
    assert not docstrings.is_without("error", zyx.optim.StepLR)  # which looks at what it is given
