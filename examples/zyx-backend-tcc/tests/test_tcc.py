"""What is this package's own; the rest is the kit's: ``pytest --pyargs zyx.testing --zyx-device tcc``."""

import pytest

from zyx.errors import CompileError
from zyx_backend_tcc.driver import Compiler


def test_what_the_compiler_says_is_in_the_error() -> None:
    with pytest.raises(CompileError, match="';' expected"):
        Compiler().build("int f(void) { return 1 }", "f")
