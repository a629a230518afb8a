"""What an encoder is, which makes one vector of a text: BERT. Devlin et al., "BERT", 2019.

x = norm(token_embd[tokens] + position_embd[places] + token_types[0])
for each layer:
x = norm(x + attention(x @ Q + b, x @ K + b, x @ V + b) @ O + b)        each token sees all of its text
x = norm(x + gelu(x @ up + b) @ down + b)
vector = the mean of x over the tokens, or that of the first one
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError
from zyx_llm.config.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What is read, in GGUF and in ``config.json``.
ENCODERS: Final = ("bert",)
#: What GGUF's numbers of ways to make one vector of those of all tokens mean.
_POOLINGS: Final = {1: "mean", 2: "cls"}


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """An encoder.

    Attributes:
        architecture: What the file calls it.
        layers: Number of layers.
        width: Numbers that stand for a token between layers.
        heads: Of attention.
        inner: Numbers between up and down.
        vocabulary: Number of tokens.
        context: The most tokens of a text.
        types: Kinds of tokens, of which the first is taken.
        epsilon: What norms add to the variance.
        pooling: "mean" of the tokens' vectors, or "cls", the first one's.
    """

    architecture: str
    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    context: int
    types: int
    epsilon: float
    pooling: str = "mean"

    def __post_init__(self) -> None:
        """Raise a `FormatError` for sizes that do not fit."""
        for name in ("layers", "width", "heads", "inner", "vocabulary", "context", "types"):
            if getattr(self, name) < 1:
                raise FormatError(f"an encoder has {name} of at least 1, not {getattr(self, name)}")
        if self.width % self.heads:
            raise FormatError(f"{self.width} numbers of a token are no multiple of {self.heads} heads")
        if self.pooling not in _POOLINGS.values():
            raise FormatError(f"the pooling {self.pooling!r} is not known; {', '.join(_POOLINGS.values())} are")


def encoder_of_metadata(metadata: Mapping[str, Any]) -> EncoderConfig:
    """Return what the metadata of a GGUF file say; see `zyx.io.read_metadata`.

    Raises:
        FormatError: An architecture that is not known, or a key that is missing or of another kind.
    """
    name = metadata.get("general.architecture")
    if name not in ENCODERS:
        raise FormatError(f"the file is of architecture {name!r}; encoders are {', '.join(ENCODERS)}")
    read = Reader(metadata, f"{name}.")
    pooling = read.integer("pooling_type", 1)
    if pooling not in _POOLINGS:
        raise FormatError(f"the file has {pooling} for {name}.pooling_type; 1, the mean, and 2, the first, are read")
    return EncoderConfig(
        architecture=name,
        layers=read.layers("block_count"),
        width=read.integer("embedding_length"),
        heads=read.integer("attention.head_count"),
        inner=read.integer("feed_forward_length"),
        vocabulary=len(metadata.get("tokenizer.ggml.tokens", ())) or read.integer("vocab_size"),
        context=read.integer("context_length"),
        types=Reader(metadata).integer("tokenizer.ggml.token_type_count", 2),
        epsilon=read.number("attention.layer_norm_epsilon"),
        pooling=_POOLINGS[pooling],
    )


def encoder_of_json(values: Mapping[str, Any], pooling: Mapping[str, Any]) -> EncoderConfig:
    """Return what the object of a ``config.json`` says, and that of ``1_Pooling/config.json``, {} if there is none.

    Raises:
        FormatError: A model that is not known, or a key that is missing or of another kind.
    """
    name = values.get("model_type")
    if name not in ENCODERS:
        raise FormatError(f"config.json has {name!r} for model_type; encoders are {', '.join(ENCODERS)}")
    for key, known in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if values.get(key, known) != known:
            raise FormatError(f"config.json has {values[key]!r} for {key}; {known!r} is read")
    chosen = [key.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
              for key, is_so in pooling.items() if key.startswith("pooling_mode_") and is_so is True]  # fmt: skip
    if len(chosen) > 1:
        raise FormatError(f"1_Pooling/config.json has {' and '.join(chosen)}; one is read")
    read = Reader(values)
    return EncoderConfig(
        architecture=name,
        layers=read.layers("num_hidden_layers"),
        width=read.integer("hidden_size"),
        heads=read.integer("num_attention_heads"),
        inner=read.integer("intermediate_size"),
        vocabulary=read.integer("vocab_size"),
        context=read.integer("max_position_embeddings"),
        types=read.integer("type_vocab_size", 2),
        epsilon=read.number("layer_norm_eps", 1e-12),
        pooling=chosen[0] if chosen else "mean",
    )
