"""Tracing and replay of functions."""

from zyx.jit.function import Jit, jit

__all__ = ["Jit", "jit"]
