"""The foreign functions of this backend: LLVM through llvmlite, and native code called through ctypes.

Nothing else in the package imports llvmlite or ctypes. Importing this module loads LLVM, so the business card does not.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import llvmlite
import llvmlite.binding as llvm

from zyx.errors import CompileError, InitializationError
from zyx_backend_c.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

#: How hard LLVM's code generator works. 1 is as good for most kernels and no faster to compile.
_CODE_GENERATION_LEVEL: Final = 3

#: A linker of LLVM never forgets the name of a library that it has loaded, with some 10 KB around it: after so many
#: libraries the next ones have a new linker, which takes about as long as linking one.
_LIBRARIES_OF_A_LINKER: Final = 64

_HUGE_PAGE: Final = 1 << 21
#: How CPython calls a builtin function: with an array of its arguments.
_METH_FASTCALL: Final = 0x80


class Code:
    """Machine code in memory; it stays as long as this object.

    Attributes:
        addresses: Of the functions asked for, by name.
    """

    __slots__ = ("_owner", "addresses")

    def __init__(self, owner: object, addresses: Mapping[str, int]) -> None:
        self._owner = owner
        self.addresses = addresses


class Compiler:
    """LLVM's code generator and linker.

    Args:
        target: The processor to make code for, of this machine's architecture; None means the one it runs on.

    llvmlite runs one call at a time and releases the interpreter's lock meanwhile: any thread may call any method, and
    a compilation in one thread does not stop Python in another.
    """

    def __init__(self, target: Target | None = None) -> None:
        try:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            self.target: Final = host_target() if target is None else target
            self._machine = llvm.Target.from_triple(self.target.triple).create_target_machine(
                cpu=self.target.cpu,
                features=",".join(f"+{name}" for name in sorted(self.target.features)),
                opt=_CODE_GENERATION_LEVEL,
                reloc="pic",
                codemodel="small",
            )
            self._linker = self._new_linker()
        except RuntimeError as error:  # llvmlite's one error
            raise InitializationError(f"LLVM does not start on this machine: {error}") from error
        self._numbers = itertools.count(1)

    def _new_linker(self) -> llvm.orcjit.LLJIT:
        # LLVM's older linker asks for the memory of code and of its tables one by one, and ends the process if they
        # come to lie more than 2 GiB apart, as happens beside large libraries. The newer one has no Windows.
        return llvm.create_lljit_compiler(
            self._machine, use_jit_link="windows" not in self.target.triple, suppress_errors=True
        )

    @property
    def version(self) -> str:
        """Versions of everything that decides which code comes out."""
        numbers = ".".join(str(number) for number in llvm.llvm_version_info)
        return f"llvmlite {llvmlite.__version__}, LLVM {numbers}, level {_CODE_GENERATION_LEVEL}"

    def compile(self, text: str) -> bytes:
        """Return the object file of LLVM IR `text`.

        Raises:
            CompileError: It is not valid; the text has LLVM's complaint and the IR.
        """
        return bytes(self._machine.emit_object(self._parse(text)))

    def assembly(self, text: str) -> str:
        """Return the assembly of LLVM IR `text`, for people. Raises as `compile` does."""
        return str(self._machine.emit_assembly(self._parse(text)))

    def _parse(self, text: str) -> llvm.ModuleRef:
        try:
            return llvm.parse_assembly(text)
        except RuntimeError as error:
            raise CompileError(f"LLVM refused this code: {error}\n{text}") from error

    def link(self, image: bytes, symbols: tuple[str, ...], imports: Mapping[str, int]) -> Code:
        """Load the object file `image` and return the addresses of `symbols` in it.

        Args:
            image: What `compile` returned.
            symbols: Names of functions.
            imports: Addresses of the functions that it may call.

        Raises:
            CompileError: The object is damaged, or calls a function that is not in `imports`.
        """
        library = llvm.JITLibraryBuilder().add_object_img(image)
        for symbol in symbols:
            library.export_symbol(symbol)
        for name, address in imports.items():
            library.import_symbol(name, address)
        number = next(self._numbers)
        try:
            if number % _LIBRARIES_OF_A_LINKER == 0:
                self._linker = self._new_linker()  # code keeps the one that loaded it
            tracker = library.link(self._linker, f"zyx{number}")
        except RuntimeError as error:
            raise CompileError(f"LLVM could not link {', '.join(symbols)}: {error}") from error
        return Code(tracker, {symbol: tracker[symbol] for symbol in symbols})


def host_target() -> Target:
    """Return the processor that this runs on."""
    present = frozenset(name for name, is_present in llvm.get_host_cpu_features().items() if is_present)
    return Target(llvm.get_default_triple(), llvm.get_host_cpu_name(), present)


def load_shared_library(path: Path, symbols: tuple[str, ...]) -> Code:
    """Load a shared library and return the addresses of `symbols` in it. It stays loaded until the process ends.

    Raises:
        CompileError: It cannot be loaded, or lacks a symbol.
    """
    try:
        library = ctypes.CDLL(str(path))
        addresses = {symbol: _address_of(getattr(library, symbol)) for symbol in symbols}
    except (OSError, AttributeError) as error:
        raise CompileError(f"{path} cannot be loaded: {error}") from error
    return Code(library, addresses)


def find_symbols(names: tuple[str, ...], library: Path | None = None) -> dict[str, int]:
    """Return the addresses of those of `names` that a library has; None means the C library of this process."""
    try:
        loaded = ctypes.CDLL(str(library) if library is not None else None)
    except (OSError, TypeError):  # Windows cannot search the process, and raises TypeError
        return {}
    found = {}
    for name in names:
        function = getattr(loaded, name, None)
        if function is not None:
            found[name] = _address_of(function)
    return found


def _address_of(function: ctypes._CFunctionType) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None  # a function that was found has one
    return address


def call_text(address: int) -> str:
    """Call a native function without arguments that returns a C string, and return that."""
    text: bytes = ctypes.CFUNCTYPE(ctypes.c_char_p)(address)()
    return text.decode(errors="replace")


def procedure(address: int, arguments: int) -> Callable[..., None]:
    """Return a Python function for the native procedure of so many arguments: addresses, or integers as long as these.

    The interpreter's lock is released while it runs.
    """
    # ctypes takes half as long to convert an int to an address as to an integer of 64 bits.
    return ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * arguments)(address)


def python_functions(names: tuple[str, ...]) -> dict[str, int]:
    """Return the addresses of those of `names` that are functions of the interpreter that this runs in."""
    found = {name: getattr(ctypes.pythonapi, name, None) for name in names}
    return {name: _address_of(function) for name, function in found.items() if function is not None}


def address_of_object(name: str) -> int:
    """Return the address of the one string object that Python has for an attribute's `name`; it stays for good."""
    string = ctypes.py_object(sys.intern(name))
    ctypes.pythonapi.Py_IncRef(string)
    address = ctypes.cast(ctypes.pointer(string), ctypes.POINTER(ctypes.c_void_p)).contents.value
    assert address is not None  # an object has one
    return address


class _Method(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


class Builtins:
    """Makes builtin functions of Python of a native one; they differ in the integer that this is given first.

    The native function is ``PyObject *f(PyObject *self, PyObject *const *args, Py_ssize_t count)``, called with the
    interpreter's lock. This object has to stay as long as what it made may be called.
    """

    def __init__(self, name: str, code: Code, symbol: str) -> None:
        self._code = code
        self._method = _Method(name.encode(), code.addresses[symbol], _METH_FASTCALL, None)
        self._new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )

    def make(self, first: int) -> Callable[..., bool]:
        """Return the function that is given `first`."""
        function: Callable[..., bool] = self._new(ctypes.addressof(self._method), first, None)
        return function


class NativeWords:
    """Zeroed native memory of 64-bit integers, at an address that is a multiple of 64.

    Attributes:
        address: Of the first word.
        words: The integers, for reading and writing.
    """

    __slots__ = ("_owner", "address", "words")

    def __init__(self, count: int) -> None:
        self._owner = ctypes.create_string_buffer(8 * count + 64)
        start = -ctypes.addressof(self._owner) % 64
        self.address = ctypes.addressof(self._owner) + start
        self.words = memoryview(self._owner)[start : start + 8 * count].cast("B").cast("Q")


class Pages:
    """Fresh memory from the system, at a multiple of 2 MiB and in huge pages where it has them.

    Attributes:
        address: Of the first byte.
    """

    __slots__ = ("_exported", "_map", "address")

    def __init__(self, nbytes: int) -> None:
        if hasattr(
            mmap, "MAP_PRIVATE"
        ):  # not Windows. The default is shared, with child processes, and without huge pages
            self._map = mmap.mmap(-1, nbytes + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            self._map = mmap.mmap(-1, nbytes + _HUGE_PAGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux
            with suppress(OSError):  # a kernel without huge pages: small ones do, slower
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self._exported = ctypes.c_char.from_buffer(self._map)
        start = ctypes.addressof(self._exported)
        self.address = start + -start % _HUGE_PAGE


def native_thread(name: str, function: Callable[..., None], *arguments: int) -> threading.Thread:
    """Return a thread, to be started, that runs a native procedure."""
    return threading.Thread(target=function, args=arguments, name=name, daemon=True)
