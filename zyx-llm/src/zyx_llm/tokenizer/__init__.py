"""Texts to numbers of tokens and back. Start reading at `zyx_llm.tokenizer.tokenizer`."""

from zyx_llm.tokenizer.from_gguf import tokenizer_of_metadata
from zyx_llm.tokenizer.from_json import tokenizer_of_folder
from zyx_llm.tokenizer.stream import Stream
from zyx_llm.tokenizer.tokenizer import Special, Tokenizer

__all__ = ["Special", "Stream", "Tokenizer", "tokenizer_of_folder", "tokenizer_of_metadata"]
