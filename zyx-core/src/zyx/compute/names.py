"""What calls are told: which matrix is turned, which operation, and where in the memory of a handle."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

#: What stands for memory on a device: no address, and never 0. Its upper bits say which backend gave it out.
Handle: TypeAlias = int


class Region(NamedTuple):
    """The memory of a handle from a byte on, for any argument that takes a handle.

    Attributes:
        handle: The handle.
        offset: Bytes in front; a whole number of elements.

    >>> zyx.compute.Region(1, offset=8).offset
    8
    """

    handle: Handle
    offset: int = 0


Place: TypeAlias = Handle | Region


class Transpose(Enum):
    """How a product reads a matrix; the values are BLAS's letters. Of real numbers CONJ_TRANS is TRANS.

    >>> zyx.compute.Transpose("t").name
    'TRANS'
    """

    NO_TRANS = "n"
    TRANS = "t"
    CONJ_TRANS = "c"


class UnaryOp(Enum):
    """Functions of one element.

    >>> zyx.compute.UnaryOp("relu").name
    'RELU'
    """

    RELU = "relu"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    EXP = "exp"
    LOG = "log"
    SQRT = "sqrt"
    ABS = "abs"
    NEG = "neg"


class BinaryOp(Enum):
    """Functions of two elements; MAX and MIN of a NaN are NaN.

    >>> zyx.compute.BinaryOp("add").name
    'ADD'
    """

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAX = "max"
    MIN = "min"
    POW = "pow"


class ReduceOp(Enum):
    """What an axis is reduced to; a NaN along it is the result.

    >>> zyx.compute.ReduceOp("sum").name
    'SUM'
    """

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    MEAN = "mean"
