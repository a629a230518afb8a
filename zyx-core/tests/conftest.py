"""What tests of several folders share."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx import realize
from zyx.graph.evaluate import evaluate
from zyx.graph.verify import verify
from zyx.runtime.runtime import Runtime, use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zyx import Tensor
    from zyx.backend import Device
    from zyx.graph import Node
    from zyx.runtime.handle import Handle


@pytest.fixture
def interpreter() -> Iterator[Runtime]:
    """Make a runtime of its own the current one, whose default device is the interpreter."""
    runtime = Runtime()
    with use(runtime), runtime.default("interpreter"):
        yield runtime
    runtime.close()


class _Cells(HTMLParser):
    """Collects rows of cells, and holds every tag against those that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"table", "thead", "tbody", "tr", "th", "td", "p"}
        assert {name for name, _ in attrs} <= {"style"}
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in {"td", "th"}:
            self.rows[-1][-1] += data


@pytest.fixture
def well_formed() -> Callable[[str], list[list[str]]]:
    """Return the cells of tables of HTML, rows below each other; tags are few and paired, and none is a script."""

    def cells(text: str) -> list[list[str]]:
        parser = _Cells()
        parser.feed(text)
        parser.close()
        assert not parser.open
        return parser.rows

    return cells


class OracleRuntime(Runtime):
    """Keeps values as NumPy arrays, and checks every graph that it computes."""

    @property
    def default_device(self) -> str:
        return "oracle:0"

    def device_name(self, name: str | None) -> str:
        return "oracle:0" if name is None else name

    def device(self, name: str | None = None) -> Device:
        return super().device("interpreter" if name is None or name.startswith("oracle") else name)

    def upload(self, array: np.ndarray, device: str) -> Node:
        if self.tracing is not None:
            return super().upload(array, device)
        return self.graph.leaf(array.shape, dtypes.as_dtype(array.dtype), device, np.array(array, order="C"))

    def realize(self, handles: Sequence[Handle]) -> None:
        if self.tracing is not None:
            return
        nodes = [handle._node for handle in handles if handle._node.storage is None]
        verify(nodes)
        for node, value in zip(nodes, evaluate(nodes), strict=True):
            assert value.shape == node.shape
            assert value.dtype == node.dtype.numpy
            node.storage = value
        for handle in handles:
            self.current_node(handle)

    def download(self, handle: Handle) -> np.ndarray:
        if self.tracing is not None:
            raise self.tracing.refusal(handle)
        self.realize([handle])
        return np.array(handle._node.storage)


@pytest.fixture
def of_oracle() -> Callable[..., list[np.ndarray]]:
    """Return what calls a function with the oracle as the current runtime, and returns the values of its tensors.

    For what others are compared with: nothing of it is compiled, which takes long where graphs have many nodes.
    """

    def values(function: Callable[[], Sequence[Tensor]]) -> list[np.ndarray]:
        with use(OracleRuntime()):
            found = function()
            realize(*found)
            return [tensor.numpy() for tensor in found]

    return values


@pytest.fixture
def oracle() -> Iterator[OracleRuntime]:
    """Make the oracle the current runtime."""
    with use(OracleRuntime()) as runtime:
        yield runtime
