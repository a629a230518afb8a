"""A language model out of a file: a network, its tokenizer, and how it talks."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zyx
from zyx import io
from zyx.errors import FormatError, InvalidArgumentError
from zyx_llm.chat import Template
from zyx_llm.config import ENCODERS
from zyx_llm.embedder import Embedder
from zyx_llm.files import read_json
from zyx_llm.generation import Sampling, Session, Step, Stops, check_of, generate_all, step_of
from zyx_llm.model import Transformer, load_encoder, load_transformer
from zyx_llm.tokenizer import Tokenizer, tokenizer_of_folder, tokenizer_of_metadata

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


class LanguageModel:
    """What answers.

    Args:
        network: What writes tokens.
        tokenizer: What makes text of them.
        template: How a talk is written; None if the file does not say.
        cache_dtype: Of the keys and values of sessions.

    Attributes:
        network: What writes tokens.
        tokenizer: What makes text of them.
        template: How a talk is written, or None.
        cache_dtype: Of the keys and values of sessions.
        embedder: What makes vectors of texts by the same network.
    """

    def __init__(
        self,
        network: Transformer,
        tokenizer: Tokenizer,
        template: Template | None = None,
        cache_dtype: zyx.DType = zyx.float32,
    ) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.template = template
        self.cache_dtype = cache_dtype
        self._steps: dict[Sampling, Step] = {}
        self._check = check_of(network)
        self.embedder = Embedder(network, tokenizer)

    def session(self, sampling: Sampling | None = None) -> Session:
        """Return a text that grows, for `answer`."""
        sampling = sampling or Sampling()
        return Session(self.network, sampling, step=self._step(sampling), check=self._check, dtype=self.cache_dtype)

    def _step(self, sampling: Sampling) -> Step:
        alike = dataclasses.replace(sampling, seed=0)
        if alike not in self._steps:
            self._steps[alike] = step_of(self.network, alike)
        return self._steps[alike]

    def answer(
        self,
        prompt: str,
        *,
        limit: int = 256,
        sampling: Sampling | None = None,
        stops: Sequence[str] = (),
        session: Session | None = None,
        draft: int = 0,
    ) -> Iterator[str]:
        """Give the text that goes on from a prompt, as it comes; it ends where the model ends it.

        Args:
            prompt: A text, in which special tokens may be written out.
            limit: The most tokens.
            sampling: How they are chosen; the likeliest if None. A session has its own.
            stops: Texts that end the answer, and are left out.
            session: What was read before, by `session`: what the prompt has in common with it is not read again.
            draft: How many tokens are proposed at a time out of what was said before, and checked in one step. The
                answer is the same, and comes sooner where it repeats that; tokens have to be the likeliest ones.

        Raises:
            ShapeError: The prompt is longer than the context.
            InvalidArgumentError: A draft where tokens are drawn, or have a penalty.
            The errors of `Tokenizer.encode`.
        """
        session = self.session(sampling) if session is None else session
        ends, stream = Stops(stops), self.tokenizer.stream()
        tokens = session.keep(self.tokenizer.encode(prompt))
        for token in session.generate(tokens, limit, draft=draft):
            if token in self.tokenizer.special.ends:
                break
            if text := ends.push(stream.push(token)):
                yield text
            if ends.is_over:
                return
        if text := ends.push(stream.finish()) + ends.finish():
            yield text

    def answer_all(
        self,
        prompts: Sequence[str],
        *,
        limit: int = 256,
        sampling: Sampling | None = None,
        stops: Sequence[str] = (),
    ) -> list[str]:
        """Return the text that goes on from each prompt; all are written side by side, whatever their lengths.

        Each answer ends by itself, and is what `answer` gives, as far as the logits' roundings let it.

        Args:
            prompts: Texts, in which special tokens may be written out.
            limit: The most tokens of each.
            sampling: How they are chosen; the likeliest if None. Answer i is drawn by the numbers of its seed and i.
            stops: Texts that end an answer, and are left out.

        Raises:
            ShapeError: A prompt is longer than the context.
            The errors of `Tokenizer.encode`.
        """
        if isinstance(prompts, str):
            raise InvalidArgumentError("prompts are a list of texts; `answer` takes one text")
        if not prompts:
            return []
        sampling = sampling or Sampling()
        ends, streams = [Stops(stops) for _ in prompts], [self.tokenizer.stream() for _ in prompts]
        texts, going = ["" for _ in prompts], {*range(len(prompts))}
        given = [self.tokenizer.encode(prompt) for prompt in prompts]
        step, dtype = self._step(sampling), self.cache_dtype
        for column in generate_all(self.network, given, limit, sampling, step=step, dtype=dtype):
            for row in [*going]:
                token = column[row]
                if token is None or token in self.tokenizer.special.ends:
                    going.remove(row)
                    continue
                texts[row] += ends[row].push(streams[row].push(token))
                if ends[row].is_over:
                    going.remove(row)
            if not going:
                break
        for row, stream in enumerate(streams):
            if not ends[row].is_over:
                texts[row] += ends[row].push(stream.finish()) + ends[row].finish()
        return texts

    def embed(self, texts: Sequence[str], *, normalize: bool = True) -> NDArray[np.float32]:
        """Return the vectors of texts, ``(texts, width)``: means of what their tokens become; see `Embedder.embed`."""
        return self.embedder.embed(texts, normalize=normalize)

    def talk(self, messages: Sequence[Mapping[str, Any]], *, asks: bool = True) -> str:
        """Return a talk as the prompt for the next answer, without the token that `answer` puts before it.

        Args:
            messages: Each with "role", such as "user", and "content", a text.
            asks: Whether the beginning of an answer is put at the end.

        Raises:
            FormatError: The model has no chat template, or that refuses the talk.
        """
        if self.template is None:
            raise FormatError("the model has no chat template: it goes on from texts, and was not made to talk")
        text = self.template.text(messages, asks=asks)
        bos = self.tokenizer.text_of(self.tokenizer.special.bos)
        return text.removeprefix(bos) if bos and self.tokenizer.special.adds_bos else text


def load(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    dtype: zyx.DType | None = None,
    cache_dtype: zyx.DType = zyx.float32,
    context: int | None = None,
    activations: str | None = None,
) -> LanguageModel:
    """Return the language model in a file.

    Args:
        path: A GGUF file, or a folder with ``config.json``, safetensors and ``tokenizer.json``.
        device: Where it is to run; the default device if None.
        dtype: Of its matrices: float32, float16 or bfloat16. None leaves those of blocks packed, as the file has them,
            and is float32 for others.
        cache_dtype: Of the keys and values of what was said: one of these three.
        context: The most tokens at a time; what the file says if None, but at most 32,768.
        activations: What packed matrices are multiplied with: None for float32, "int8" for numbers that are rounded
            to 8 bits in the blocks of the matrix, much as llama.cpp does, where up to 8 rows are multiplied. Matrices
            whose blocks have scales of parts, such as Q4_K, are multiplied with float32 all the same.
            Logits of SmolLM2 in Q4_1 then differ by 0.07 of their norm, where the same rounding in NumPy makes it 0.06;
            the likeliest token is the same at 63 of 64 places. Where two are about as likely, answers change.

    Raises:
        FormatError: The file is not well formed, of an unknown architecture, or lacks something; the text says what.
        TransferError: It cannot be read.
        InvalidArgumentError: A context of no tokens; other activations, or rounded ones that no matrix is for.
    """
    path = Path(path)
    tokenizer, source = _of_folder(path) if path.is_dir() else _of_gguf(path)
    special = tokenizer.special
    template = None if not source else Template(source, tokenizer.text_of(special.bos), tokenizer.text_of(special.eos))
    network = load_transformer(path, device=device, dtype=dtype, context=context, activations=activations)
    _check_fit(path, tokenizer, network.config.vocabulary)
    return LanguageModel(network, tokenizer, template, cache_dtype)


def load_embedder(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    dtype: zyx.DType | None = None,
    context: int | None = None,
) -> Embedder:
    """Return what makes vectors of texts by the model in a file, an encoder or a language model.

    Args and errors are those of `load`; an encoder has the context that it was made for.
    """
    path = Path(path)
    said = read_json(path / "config.json").get("model_type") if path.is_dir() else io.read_metadata(path)
    name = said.get("general.architecture") if isinstance(said, dict) else said
    if name not in ENCODERS:
        return load(path, device=device, dtype=dtype, context=context).embedder
    tokenizer, _ = _of_folder(path) if path.is_dir() else _of_gguf(path)
    network = load_encoder(path, device=device, dtype=dtype)
    _check_fit(path, tokenizer, network.config.vocabulary)
    return Embedder(network, tokenizer)


def _check_fit(path: Path, tokenizer: Tokenizer, vocabulary: int) -> None:
    if len(tokenizer) > vocabulary:
        raise FormatError(f"{path} has {len(tokenizer)} tokens, and a network for {vocabulary}: they do not fit")


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
