"""Transforms by groups of threads: how they are divided, and what their kernels give, run by the interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.graph import node as n
from zyx.graph.fourier import LONGEST, table_of
from zyx.kernels.fourier import transformed
from zyx.kernels.fourier.groups import stage_kernel
from zyx.kernels.fourier.problem import Problem
from zyx.kernels.fourier.stages import Staged, stages_of
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from zyx.backend import DeviceInfo
    from zyx.runtime.runtime import Runtime


def drawn(*shape: int) -> np.ndarray:
    generator = np.random.default_rng(shape)
    return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)


def device_info(runtime: Runtime, local_bytes: int = 48 << 10, threads: int = 1024) -> DeviceInfo:
    info = runtime.device("interpreter").info
    return replace(info, local_bytes=local_bytes, max_group_threads=threads)


def node_of(
    x: np.ndarray, dtype: zyx.DType = zyx.float64, *, is_inverse: bool = False, scale: float = 1.0
) -> n.Fourier:
    pairs = zyx.Tensor(np.stack((x.real, x.imag), -1).astype(dtype.numpy))
    table = zyx.Tensor(table_of(x.shape[1], dtype))
    node = pairs.runtime.graph.fourier(pairs.node, table.node, is_inverse=is_inverse, scale=scale)
    assert isinstance(node, n.Fourier)
    return node


def run(staged: Staged, node: n.Fourier) -> np.ndarray:
    runtime = zyx.Tensor([0.0]).runtime
    (x, table), like = node.sources, zyx.Tensor([0.0])
    for stage, group in staged:
        (x,) = stage_kernel(stage, group).apply(runtime.graph, (x, table))
    found = like.like(runtime.graph.reshape(x, node.shape)).numpy()
    return found[..., 0] + 1j * found[..., 1]


def staged_for(node: n.Fourier, info: DeviceInfo) -> Staged:
    staged = stages_of(Problem.of(node), info)
    assert staged is not None
    return staged


@pytest.mark.parametrize("threads", [8, 64, 1024])
@pytest.mark.parametrize(
    "shape", [(3, 2, 1), (5, 16, 1), (2, 21, 5), (3, 128, 1), (2, 135, 3), (1, 300, 17), (2, 1001, 1)]
)
def test_lines_are_transformed_by_one_kernel(interpreter: Runtime, shape: tuple[int, int, int], threads: int) -> None:
    x = drawn(*shape)
    node = node_of(x, scale=2.0)
    staged = staged_for(node, device_info(interpreter, threads=threads))
    assert len(staged) == (1 if shape[1] <= 32 * threads else 2)
    np.testing.assert_allclose(run(staged, node), 2.0 * np.fft.fft(x, axis=1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("local_bytes", [5 * 1024 * 8, 2 * 1024 * 8, 1024 * 8 + 512 + 8, 1024 * 8])
def test_parts_are_exchanged_as_local_memory_has_room(interpreter: Runtime, local_bytes: int) -> None:
    x = drawn(3, 1024, 1)
    node = node_of(x, is_inverse=True)
    ((stage, group),) = staged_for(node, device_info(interpreter, local_bytes))
    assert group.arrays == (2 if local_bytes >= 2 * 1024 * 8 else 1)
    assert group.is_padded == (local_bytes not in (1024 * 8, 2 * 1024 * 8))
    np.testing.assert_allclose(run([(stage, group)], node), 1024 * np.fft.ifft(x, axis=1), rtol=0, atol=1e-11)


@pytest.mark.parametrize(("shape", "local_bytes"), [((2, 512, 1), 1024), ((1, 720, 3), 2048), ((2, 1001, 1), 1024)])
def test_passes_are_divided_where_a_line_is_too_long(
    interpreter: Runtime, shape: tuple[int, int, int], local_bytes: int
) -> None:
    x = drawn(*shape)
    node = node_of(x, scale=0.5)
    staged = staged_for(node, device_info(interpreter, local_bytes))
    assert len(staged) == 2
    np.testing.assert_allclose(run(staged, node), 0.5 * np.fft.fft(x, axis=1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", [(1, 2 * LONGEST, 1), (2, 9 * 1001, 1), (1, 2 * LONGEST, 3)])
def test_long_lines_take_columns_and_rows(interpreter: Runtime, shape: tuple[int, int, int]) -> None:
    x = drawn(*shape)
    node = node_of(x, is_inverse=True, scale=2.0)
    staged = staged_for(node, device_info(interpreter))
    assert len(staged) == 2
    np.testing.assert_allclose(run(staged, node), 2.0 * shape[1] * np.fft.ifft(x, axis=1), rtol=0, atol=1e-10)


def test_groups_have_room_for_lengths_that_are_common(interpreter: Runtime) -> None:
    for dtype, longest in ((zyx.float32, 8192), (zyx.float64, 4096)):
        info = device_info(interpreter)
        assert len(staged_for(node_of(drawn(1, longest, 1), dtype), info)) == 1
        for stage, group in staged_for(node_of(drawn(1, 1 << 20, 1), dtype), info):
            assert group.lines * 2 * dtype.itemsize >= 32
            assert group.threads * group.lines <= 1024
            assert stage.size == 1024


@pytest.mark.parametrize("shape", [(2, 12, 1), (1, 15, 3), (1, 2 * LONGEST, 1)])
@pytest.mark.parametrize("way", [0, 1])
def test_ordinary_nodes_give_the_same_where_a_device_refuses(
    interpreter: Runtime, shape: tuple[int, int, int], way: int
) -> None:
    x = drawn(*shape)
    info = device_info(interpreter, threads=1024 if way else 2)  # too few for a line, but for the shortest
    node = node_of(x, scale=2.0)
    result = transformed(interpreter.graph, node, info, way)
    found = zyx.Tensor([0.0]).like(result).numpy()
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], 2.0 * np.fft.fft(x, axis=1), rtol=0, atol=1e-10)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("local_bytes", [48 << 10, 150 * 8])
@pytest.mark.parametrize("threads", [8, 1024])
@pytest.mark.parametrize("shape", [(3, 4, 1), (2, 30, 1), (3, 256, 1), (2, 14, 5), (1, 300, 3)])
def test_real_numbers_take_half_the_work(
    interpreter: Runtime, shape: tuple[int, int, int], threads: int, local_bytes: int
) -> None:
    x = drawn(*shape).real.copy()
    info, graph = device_info(interpreter, local_bytes, threads), interpreter.graph
    table = zyx.Tensor(table_of(shape[1], zyx.float64, FourierKind.FROM_REAL))

    def run_real(values: np.ndarray, kind: FourierKind) -> np.ndarray:
        tensor = zyx.Tensor(values)
        node = graph.fourier(tensor.node, table.node, scale=0.5, kind=kind, as_pairs=True)
        assert isinstance(node, n.Fourier)
        ((stage, group),) = stages_of(Problem.of(node), info) or ()
        kernel = stage_kernel(stage, group)
        ordinary = tensor.like(transformed(graph, node, info, variant=1)).numpy()
        found = tensor.like(kernel.apply(graph, (tensor.node, table.node))[0]).numpy().reshape(node.shape)
        np.testing.assert_allclose(found, ordinary, rtol=0, atol=1e-12)
        return found

    wanted = np.fft.rfft(x, axis=1)
    found = run_real(x, FourierKind.FROM_REAL)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], 0.5 * wanted, rtol=0, atol=1e-12)
    wanted[:, 0] += 1j  # which is left out
    wanted[:, -1] += 1j
    back = run_real(np.stack((wanted.real, wanted.imag), -1), FourierKind.TO_REAL)
    np.testing.assert_allclose(back, 0.5 * shape[1] * x, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("size", "launches"), [(1024, 1), (1000, 1), (4096, 1), (1 << 14, 2), (1009, 5)])
def test_transforms_are_few_launches(interpreter: Runtime, size: int, launches: int) -> None:
    x = zyx.Tensor(drawn(2, size).astype(np.complex64))
    assert len(zyx.explain_plan(zyx.fft.fft(x))["steps"]) == launches
    assert len(zyx.explain_plan(zyx.fft.ifft(x, axis=0))["steps"]) == 1
    if size % 2 == 0:
        values, half = zyx.Tensor(drawn(2, size).real.copy()), zyx.Tensor(drawn(2, size // 2 + 1))
        assert len(zyx.explain_plan(zyx.fft.rfft(values))["steps"]) == 1
        assert len(zyx.explain_plan(zyx.fft.irfft(half))["steps"]) == 1
