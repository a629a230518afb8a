"""A flat, BLAS-like interface on handles of memory, over every device. Start reading at `compute_backend`."""

from zyx.compute.compute_backend import ComputeBackend
from zyx.compute.names import BinaryOp, ReduceOp, Region, Transpose, UnaryOp

__all__ = ["BinaryOp", "ComputeBackend", "ReduceOp", "Region", "Transpose", "UnaryOp"]
