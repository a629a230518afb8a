"""What a transformer is: everything in which Llama, Qwen, Mistral, Gemma and Phi differ is a field.

x = embedding[tokens] * embedding_scale
for each layer:
h = norm(x);  q, k, v = h @ Q + bias, h @ K + bias, h @ V + bias
q, k = rope(norm(q)), rope(norm(k))                         norms if has_head_norms
x += norm(attention(q, k, v) @ O)                           norm if has_norms_after
h = norm(x);  x += norm((activation(h @ gate) * (h @ up)) @ down)      of several experts, if there are some
logits = norm(x) @ head
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zyx.errors import FormatError

#: Layers of the deepest networks that are read: more would be many names to look for before any is found missing.
MOST_LAYERS: Final = 1024


@dataclass(frozen=True, slots=True)
class Rope:
    """How places are told by rotations; Su et al., "RoFormer", 2021.

    Attributes:
        base: Pair i of `width` / 2 turns by ``base ** (-2 i / width)`` a place.
        width: Numbers of a head that are turned, the first ones.
        is_interleaved: Whether pairs are neighbours; otherwise the first half is paired with the second one.
        divisors: What each pair's turn is divided by, or () for 1.
        factor: What sines and cosines are multiplied by.
        near: The most places of networks that have these divisors; those with room for more have the others.
        far_divisors: Those others, or () for the same.
    """

    base: float
    width: int
    is_interleaved: bool = False
    divisors: tuple[float, ...] = ()
    factor: float = 1.0
    near: int = 0
    far_divisors: tuple[float, ...] = ()

    def divisors_for(self, length: int) -> tuple[float, ...]:
        """Return the divisors for a network with room for so many places."""
        return self.far_divisors if self.far_divisors and length > self.near else self.divisors


@dataclass(frozen=True, slots=True)
class Experts:
    """The gated networks of a layer of which each token goes through a few; `zyx_llm.model.experts` has the formula.

    Attributes:
        count: How many there are.
        used: How many of them a token goes through.
        inner: Numbers between gate and down of one.
        shared_inner: The same of the one that all tokens go through besides; 0 if there is none.
        is_normed: Whether the shares of those that are used are divided by their sum.
        scale: What shares are multiplied by.
    """

    count: int
    used: int
    inner: int
    shared_inner: int = 0
    is_normed: bool = True
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Raise a `FormatError` for sizes that do not fit."""
        if not 1 <= self.used <= self.count:
            raise FormatError(f"a token goes through {self.used} of {self.count} experts, which has to be 1 to all")
        if self.inner < 1 or self.shared_inner < 0:
            raise FormatError(f"experts have {self.inner} numbers inside, and the shared one {self.shared_inner}")


@dataclass(frozen=True, slots=True)
class Config:
    """A transformer that writes one token after the other.

    Attributes:
        architecture: What the file calls it.
        layers: Number of layers.
        width: Numbers that stand for a token between layers.
        heads: Heads of queries.
        key_heads: Heads of keys and values, each for as many heads of queries in a row.
        head_width: Numbers of a head.
        inner: Numbers between gate and down.
        vocabulary: Number of tokens.
        context: The most tokens it was made for.
        epsilon: What norms add to the mean square.
        rope: How places are told.
        local_rope: The same in layers with a window, where it differs.
        windows: For each layer, how many places back a query sees, its own among them; None for all.
        activation: "silu" or "gelu", which is the approximation by tanh.
        norm_offset: What is added to the weights of norms.
        has_head_norms: Whether queries and keys are normalised, head by head.
        has_norms_after: Whether what a layer adds is normalised, too.
        embedding_scale: What embeddings are multiplied by.
        attention_scale: What scores are multiplied by.
        score_cap: c for scores ``c * tanh(s / c)``; None for s.
        logit_cap: The same for logits.
        experts: Of layers that have a router; None if there are none.
    """

    architecture: str
    layers: int
    width: int
    heads: int
    key_heads: int
    head_width: int
    inner: int
    vocabulary: int
    context: int
    epsilon: float
    rope: Rope
    windows: tuple[int | None, ...]
    attention_scale: float
    local_rope: Rope | None = None
    activation: str = "silu"
    norm_offset: float = 0.0
    has_head_norms: bool = False
    has_norms_after: bool = False
    embedding_scale: float = 1.0
    score_cap: float | None = None
    logit_cap: float | None = None
    experts: Experts | None = None

    def __post_init__(self) -> None:
        """Raise a `FormatError` for sizes that do not fit."""
        for name in ("layers", "width", "heads", "key_heads", "head_width", "inner", "vocabulary", "context"):
            if getattr(self, name) < 1:
                raise FormatError(f"a transformer has {name} of at least 1, not {getattr(self, name)}")
        if self.heads % self.key_heads:
            raise FormatError(f"{self.heads} heads of queries are no multiple of {self.key_heads} heads of keys")
        if not 0 < self.rope.width <= self.head_width or self.rope.width % 2:
            raise FormatError(f"{self.rope.width} numbers are turned in pairs, of heads of {self.head_width}")
        for divisors in (self.rope.divisors, self.rope.far_divisors):
            if divisors and (len(divisors) != self.rope.width // 2 or not min(divisors) > 0):
                raise FormatError(
                    f"there are {len(divisors)} divisors, the least {min(divisors)}, for {self.rope.width // 2} turns"
                )
        if len(self.windows) != self.layers:
            raise FormatError(f"there are {len(self.windows)} windows for {self.layers} layers")
        if self.activation not in {"silu", "gelu"}:
            raise FormatError(f"the activation {self.activation!r} is not known; silu and gelu are")
