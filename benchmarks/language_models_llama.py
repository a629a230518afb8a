"""llama.cpp out of its shared libraries, by ctypes: what `language_models.py` compares with.

The package `@node-llama-cpp/linux-x64` of npm has the libraries for each generation of processors:

    npm pack @node-llama-cpp/linux-x64@3.22.1 && tar xzf node-llama-cpp-linux-x64-3.22.1.tgz

Structures with parameters are taken as blocks of bytes, since their later fields change with each release; of them only
the first three words of a context's are written, which are the same in all.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: Bytes for a structure of parameters, more than any release has.
_ROOM: Final = 512


class _Parameters(ctypes.Structure):
    _fields_ = (("words", ctypes.c_uint32 * (_ROOM // 4)),)


class _Batch(ctypes.Structure):
    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


_LOG: Final = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_POINTER: Final = ctypes.c_void_p
#: Result and arguments of what is called.
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "llama_log_set": (None, (_LOG, _POINTER)),
    "llama_model_default_params": (_Parameters, ()),
    "llama_model_load_from_file": (_POINTER, (ctypes.c_char_p, _Parameters)),
    "llama_context_default_params": (_Parameters, ()),
    "llama_init_from_model": (_POINTER, (_POINTER, _Parameters)),
    "llama_set_n_threads": (None, (_POINTER, ctypes.c_int32, ctypes.c_int32)),
    "llama_model_get_vocab": (_POINTER, (_POINTER,)),
    "llama_vocab_n_tokens": (ctypes.c_int32, (_POINTER,)),
    "llama_get_memory": (_POINTER, (_POINTER,)),
    "llama_memory_clear": (None, (_POINTER, ctypes.c_bool)),
    "llama_decode": (ctypes.c_int32, (_POINTER, _Batch)),
    "llama_get_logits": (ctypes.POINTER(ctypes.c_float), (_POINTER,)),
    "llama_free": (None, (_POINTER,)),
    "llama_model_free": (None, (_POINTER,)),
}


def libraries(folder: Path) -> Path:
    """Return the folder at or below `folder` that has llama.cpp's libraries.

    Raises:
        FileNotFoundError: There is none.
    """
    found = sorted(path for path in folder.rglob("libllama*.so*") if "common" not in path.name)
    if not found:
        raise FileNotFoundError(f"no libllama.so in {folder} or below; npm pack @node-llama-cpp/linux-x64 has one")
    return found[0].parent


class Llama:
    """A text that llama.cpp reads and goes on with, on the processor.

    Args:
        folder: Where its libraries lie, or above that.
        path: A GGUF file.
        context: The most tokens; so many may be read in one call.
        threads: How many it computes with.

    Raises:
        FileNotFoundError: There are no libraries.
        RuntimeError: It does not take the file.

    Attributes:
        length: How many tokens were read since `clear`.
        vocabulary: How many tokens there are.
    """

    def __init__(self, folder: Path, path: Path, context: int, threads: int) -> None:
        where = libraries(folder)
        first = next(iter(sorted(where.glob("libggml.*"))))
        ggml = ctypes.CDLL(str(first), ctypes.RTLD_GLOBAL)
        library = next(path for path in sorted(where.glob("libllama*.so*")) if "common" not in path.name)
        self._api = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._api, name)
            function.restype, function.argtypes = result, list(arguments)
        self._silence = _LOG(lambda _level, _text, _data: None)
        self._api.llama_log_set(self._silence, None)
        ggml.ggml_backend_load_all_from_path.restype = None
        ggml.ggml_backend_load_all_from_path(ctypes.c_char_p(str(where).encode()))
        self._model = self._api.llama_model_load_from_file(str(path).encode(), self._api.llama_model_default_params())
        if not self._model:
            raise RuntimeError(f"llama.cpp of {where} does not load {path}")
        parameters = self._api.llama_context_default_params()
        parameters.words[:3] = [context] * 3  # n_ctx, n_batch, n_ubatch
        self._context = self._api.llama_init_from_model(self._model, parameters)
        if not self._context:
            raise RuntimeError(f"llama.cpp of {where} makes no context of {context} tokens for {path}")
        self._api.llama_set_n_threads(self._context, threads, threads)
        self.vocabulary: int = self._api.llama_vocab_n_tokens(self._api.llama_model_get_vocab(self._model))
        self.length = 0

    def clear(self) -> None:
        """Forget all tokens."""
        self._api.llama_memory_clear(self._api.llama_get_memory(self._context), True)
        self.length = 0

    def logits(self, tokens: Sequence[int], *, last: bool = False) -> NDArray[np.float32]:
        """Append tokens, in one call, and return the logits ``(n, vocabulary)`` of each, or ``(1, vocabulary)``.

        Args:
            tokens: At least one.
            last: Whether logits are computed for the last one only.

        Raises:
            RuntimeError: They are more than there is room for.
        """
        n = len(tokens)
        own = ctypes.c_int32(0)
        batch = _Batch(
            n_tokens=n,
            token=(ctypes.c_int32 * n)(*tokens),
            pos=(ctypes.c_int32 * n)(*range(self.length, self.length + n)),
            n_seq_id=(ctypes.c_int32 * n)(*[1] * n),
            seq_id=(ctypes.POINTER(ctypes.c_int32) * n)(*[ctypes.pointer(own)] * n),
            logits=(ctypes.c_int8 * n)(*[0 if last else 1] * (n - 1), 1),
        )
        if code := self._api.llama_decode(self._context, batch):
            raise RuntimeError(f"llama_decode of {n} tokens after {self.length} gives {code}")
        self.length += n
        count = 1 if last else n
        found = self._api.llama_get_logits(self._context)
        return np.ctypeslib.as_array(found, (count, self.vocabulary)).copy()

    def greedy(self, tokens: Sequence[int], count: int) -> list[int]:
        """Append tokens, and return the `count` likeliest ones that follow; the last is not appended."""
        found = [int(self.logits(tokens, last=True)[0].argmax())]
        while len(found) < count:
            found.append(int(self.logits(found[-1:], last=True)[0].argmax()))
        return found

    def close(self) -> None:
        """Give the memory back."""
        self._api.llama_free(self._context)
        self._api.llama_model_free(self._model)
