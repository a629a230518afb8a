"""Settings of Sphinx for this site. ``tox -e docs`` builds it; nothing is read from or linked to another host."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
os.environ.setdefault("ZYX_DEVICE", "interpreter")  # no driver is needed
sys.path.insert(0, str(HERE))

import api_pages
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform
from sphinx.util.logging import getLogger

from zyx import errors
from zyx.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = getLogger(__name__)

project = "zyx"
copyright = "the authors of zyx"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"zyx {__version__}"
html_favicon = "icon.svg"  # a browser asks for one, and complains if there is none
html_copy_source = False
default_role = "name"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
napoleon_use_ivar = True
napoleon_use_rtype = False
myst_heading_anchors = 4
toc_object_entries = False


class LinkNames(SphinxTransform):
    """Make links of code that is the name of something of zyx with its module, also on pages in Markdown."""

    default_priority = 20

    def apply(self, **given: object) -> None:
        """Wrap it into a reference, which Sphinx leaves as it is where nothing has that name."""
        for node in list(self.document.findall(nodes.literal)):
            text = node.astext().removesuffix("()")
            text = f"zyx.errors.{text}" if hasattr(errors, text) and text.endswith("Error") else text
            is_linked = isinstance(node.parent, nodes.reference | pending_xref)
            if re.fullmatch(r"zyx(\.\w+)+", text) and not is_linked:
                link = pending_xref("", refdomain="py", reftype="obj", reftarget=text, refexplicit=True, refwarn=False)
                node.replace_self(link)
                link += node


def name_role(name: str, raw: str, text: str, *rest: object) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Show what stands in single backticks as code; `LinkNames` makes links."""
    return [nodes.literal(raw, text)], []


def write_reference(app: Sphinx) -> None:
    """Write the pages of the reference before Sphinx looks which pages there are."""
    api_pages.write_pages(HERE / "reference" / "api")


def show_blocks_as_code(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Mark blocks that are indented below a line that is not: examples and tables, in docstrings here."""
    told: list[str] = []
    for line in lines:
        before = told[-2:]
        starts = len(before) == 2 and not before[1] and before[0][:1].strip() and line.startswith("    ")
        if starts and not before[0].endswith("::") and not line.lstrip().startswith(">>>"):
            told += ["::", ""]
        told.append(line)
    lines[:] = told


def without_links_to_the_source(app: Sphinx, name: str, text: list[str]) -> None:
    """Show links to files of the repository that are no page of this site as names of files."""
    folder = (HERE / name).parent

    def shown(found: re.Match[str]) -> str:
        path = (folder / found[2]).resolve()
        return found[0] if path.is_relative_to(HERE) else f"{found[1]} (`{path.relative_to(HERE.parent)}`)"

    text[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#\s]+)[^)]*\)", shown, text[0])


def every_name_has_an_entry(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warn of public names that no page describes; a warning is an error where the site is built for a test."""
    there = set(environment.domains.python_domain.objects)
    for name in sorted(set(api_pages.all_public_names()) - there):
        logger.warning("%s has no entry in the reference", name)


def setup(app: Sphinx) -> None:
    """Say which of Sphinx's events this file takes part in."""
    app.add_role("name", name_role)
    app.add_transform(LinkNames)
    app.connect("builder-inited", write_reference)
    app.connect("autodoc-process-docstring", show_blocks_as_code, priority=400)  # before napoleon
    app.connect("source-read", without_links_to_the_source)
    app.connect("env-check-consistency", every_name_has_an_entry)
