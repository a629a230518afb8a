"""What ``zyx`` offers, and that importing it stays light."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import zyx

#: The functions of the Array API 2024.12, without those of complex numbers.
ARRAY_API = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_invert",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "square",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "take",
    "take_along_axis",
    "matmul",
    "matrix_transpose",
    "tensordot",
    "vecdot",
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
    "argmax",
    "argmin",
    "count_nonzero",
    "nonzero",
    "searchsorted",
    "where",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "argsort",
    "sort",
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
    "all",
    "any",
    "diff",
    "e",
    "inf",
    "nan",
    "newaxis",
    "pi",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "__array_namespace_info__",
    "__array_api_version__",
]
METHODS = [
    "__abs__",
    "__add__",
    "__and__",
    "__array_namespace__",
    "__bool__",
    "__complex__",
    "__dlpack__",
    "__dlpack_device__",
    "__eq__",
    "__float__",
    "__floordiv__",
    "__ge__",
    "__getitem__",
    "__gt__",
    "__index__",
    "__int__",
    "__invert__",
    "__le__",
    "__lshift__",
    "__lt__",
    "__matmul__",
    "__mod__",
    "__mul__",
    "__ne__",
    "__neg__",
    "__or__",
    "__pos__",
    "__pow__",
    "__rshift__",
    "__setitem__",
    "__sub__",
    "__truediv__",
    "__xor__",
    "to_device",
    "dtype",
    "device",
    "mT",
    "ndim",
    "shape",
    "size",
    "T",
]


@pytest.mark.parametrize("name", ARRAY_API)
def test_the_functions_of_the_array_api_are_there(name):
    assert hasattr(zyx, name)
    assert name in dir(zyx)


@pytest.mark.parametrize("name", METHODS)
def test_the_methods_of_the_array_api_are_there(name):
    assert hasattr(zyx.Tensor, name)


def test_everything_that_is_listed_exists_and_has_a_docstring():
    for name in zyx.__all__:
        value = getattr(zyx, name)
        if callable(value):
            assert value.__doc__, name


def test_what_is_put_off_is_listed_by_its_module():
    """The table is the one other list of these names: it is read without importing the modules."""
    for module, names in zyx._LAZY.items():
        listed = importlib.import_module(module).__all__
        assert set(names) <= set(listed)
        assert set(names) == set(listed) or module in ("zyx.autograd", "zyx.fft", "zyx.io")


def test_a_name_is_listed_once():
    assert len(zyx.__all__) == len(set(zyx.__all__))
    assert len(zyx.linalg.__all__) == len(set(zyx.linalg.__all__))
    assert len(zyx.fft.__all__) == len(set(zyx.fft.__all__))


def test_type_checkers_see_what_is_put_off():
    """They follow imports, and what a star stands for is a list of the module's own."""
    seen = set()
    for statement in ast.walk(ast.parse(Path(zyx.__file__).read_text(encoding="utf-8"))):
        if isinstance(statement, ast.ImportFrom) and statement.module in zyx._LAZY:
            names = [alias.name for alias in statement.names]
            seen |= set(zyx._LAZY[statement.module] if names == ["*"] else names)
    assert seen == set(zyx._HOMES)


def test_jit_is_the_function_even_after_its_package_was_imported():
    import zyx.jit.function

    assert callable(zyx.jit)
    assert zyx.Tape is zyx.autograd.Tape


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'zyx' has no attribute 'nothing'"):
        _ = zyx.nothing


def test_importing_zyx_opens_no_device_and_loads_nothing_heavy():
    code = (
        "import sys, zyx; from zyx.runtime import runtime; assert not runtime._started;"
        "heavy = ('ml_dtypes', 'pluggy', 'msgspec', 'rich', 'safetensors', 'zyx_backend_c');"
        "put_off = ('zyx.nn', 'zyx.optim', 'zyx.io', 'zyx.plugins');"
        "print(*(m for m in sys.modules if m.split('.')[0] in heavy or m.startswith(put_off)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_devices_are_found_by_function():
    assert zyx.default_device() == "oracle:0"
    assert callable(zyx.devices)
    assert callable(zyx.backends)
    assert callable(zyx.synchronize)
