"""Check a built site: it asks no other host for anything, each link inside leads somewhere, and its search has names.

python docs/check_site.py FOLDER
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What a browser fetches by itself, by the attribute that names it. Of `link` these are style sheets and icons.
FETCHED: Final = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("source", "src")}


class Reader(HTMLParser):
    """What a page fetches, links to, and can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names."""
        for name, value in attrs:
            if not value:
                continue
            if (tag, name) in FETCHED:
                self.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)
            elif name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value)


def problems(folder: Path) -> Iterator[str]:
    """Yield a line for each thing that is wrong with a site."""
    pages: dict[Path, Reader] = {}
    for path in sorted(folder.rglob("*.html")):
        pages[path.resolve()] = reader = Reader()
        reader.feed(path.read_text(encoding="utf-8"))
    for path, reader in pages.items():
        for place in reader.fetched:
            if urlsplit(place).netloc:
                yield f"{path.name} fetches {place}"
        for link in reader.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{path.name} links to {link}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.name} links to {link}, which has no such place"
    for path in sorted(folder.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        if "@import url(http" in text or "url(http" in text or "url(//" in text:
            yield f"{path.name} fetches from another host"
    index = folder / "searchindex.js"
    if not index.exists() or "softmax" not in index.read_text(encoding="utf-8"):
        yield "the index of the search lacks softmax"


def main(folder: Path) -> int:
    """Print what is wrong; return 1 if anything is."""
    wrong = list(problems(folder))
    print("\n".join(wrong or [f"{folder}: {sum(1 for _ in folder.rglob('*.html'))} pages, nothing from another host"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
