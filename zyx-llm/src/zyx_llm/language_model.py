"""A language model out of a file: a network, its tokenizer, and how it talks."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zyx
from zyx import io
from zyx.errors import FormatError
from zyx_llm.chat import Template
from zyx_llm.files import read_json
from zyx_llm.generation import Sampling, Session, Step, Stops, step_of
from zyx_llm.model import Transformer, load_transformer
from zyx_llm.tokenizer import Tokenizer, tokenizer_of_folder, tokenizer_of_metadata

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence


class LanguageModel:
    """What answers.

    Args:
        network: What writes tokens.
        tokenizer: What makes text of them.
        template: How a talk is written; None if the file does not say.

    Attributes:
        network: What writes tokens.
        tokenizer: What makes text of them.
        template: How a talk is written, or None.
    """

    def __init__(self, network: Transformer, tokenizer: Tokenizer, template: Template | None = None) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.template = template
        self._steps: dict[Sampling, Step] = {}

    def session(self, sampling: Sampling | None = None) -> Session:
        """Return a text that grows, for `answer`."""
        sampling = sampling or Sampling()
        alike = dataclasses.replace(sampling, seed=0)
        if alike not in self._steps:
            self._steps[alike] = step_of(self.network, alike)
        return Session(self.network, sampling, step=self._steps[alike])

    def answer(
        self,
        prompt: str,
        *,
        limit: int = 256,
        sampling: Sampling | None = None,
        stops: Sequence[str] = (),
        session: Session | None = None,
    ) -> Iterator[str]:
        """Give the text that goes on from a prompt, as it comes; it ends where the model ends it.

        Args:
            prompt: A text, in which special tokens may be written out.
            limit: The most tokens.
            sampling: How they are chosen; the likeliest if None. A session has its own.
            stops: Texts that end the answer, and are left out.
            session: What was read before, by `session`: what the prompt has in common with it is not read again.

        Raises:
            ShapeError: The prompt is longer than the context.
            The errors of `Tokenizer.encode`.
        """
        session = self.session(sampling) if session is None else session
        ends, stream = Stops(stops), self.tokenizer.stream()
        tokens = session.keep(self.tokenizer.encode(prompt))
        for token in session.generate(tokens, limit):
            if token in self.tokenizer.special.ends:
                break
            if text := ends.push(stream.push(token)):
                yield text
            if ends.is_over:
                return
        if text := ends.push(stream.finish()) + ends.finish():
            yield text

    def talk(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return a talk as the prompt for the next answer, without the token that `answer` puts before it.

        Raises:
            FormatError: The model has no chat template, or that refuses the talk.
        """
        if self.template is None:
            raise FormatError("the model has no chat template: it goes on from texts, and was not made to talk")
        text = self.template.text(messages)
        bos = self.tokenizer.text_of(self.tokenizer.special.bos)
        return text.removeprefix(bos) if bos and self.tokenizer.special.adds_bos else text


def load(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    dtype: zyx.DType = zyx.float32,
    context: int | None = None,
) -> LanguageModel:
    """Return the language model in a file.

    Args:
        path: A GGUF file, or a folder with ``config.json``, safetensors and ``tokenizer.json``.
        device: Where it is to run; the default device if None.
        dtype: Of its matrices: float32, float16 or bfloat16.
        context: The most tokens at a time; what the file says if None, but at most 32,768.

    Raises:
        FormatError: The file is not well formed, of an unknown architecture, or lacks something; the text says what.
        TransferError: It cannot be read.
    """
    path = Path(path)
    tokenizer, source = _of_folder(path) if path.is_dir() else _of_gguf(path)
    special = tokenizer.special
    template = None if not source else Template(source, tokenizer.text_of(special.bos), tokenizer.text_of(special.eos))
    network = load_transformer(path, device=device, dtype=dtype, context=context)
    if len(tokenizer) > network.config.vocabulary:
        raise FormatError(
            f"{path} has {len(tokenizer)} tokens, and a network for {network.config.vocabulary}: they do not fit"
        )
    return LanguageModel(network, tokenizer, template)


def _of_gguf(path: Path) -> tuple[Tokenizer, str | None]:
    metadata = io.read_metadata(path)
    source = metadata.get("tokenizer.chat_template")
    if source is not None and not isinstance(source, str):
        raise FormatError(f"{path} has {source!r:.80} for tokenizer.chat_template, which is a text")
    return tokenizer_of_metadata(metadata), source


def _of_folder(folder: Path) -> tuple[Tokenizer, str | None]:
    file = folder / "chat_template.jinja"
    source = file.read_text(encoding="utf-8") if file.exists() else None
    if source is None:
        source = read_json(folder / "tokenizer_config.json", required=False).get("chat_template")
    if source is not None and not isinstance(source, str):
        raise FormatError(f"{folder} has {json.dumps(source):.80} for chat_template, which is a text")
    return tokenizer_of_folder(folder), source
