"""Which tokens an answer may have, by a JSON schema or a grammar: llguidance follows it, token by token.

grammars = Grammars(model.tokenizer, model.network.config.vocabulary)
constraint = grammars.of_schema({"type": "object", "properties": {"name": {"type": "string"}}})
engine.submit(Request(tokens, limit=200, constraint=constraint))
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import llguidance
import numpy as np

from zyx.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llguidance._lib import JsonCompileOptions
    from numpy.typing import NDArray

    from zyx_llm.tokenizer import Tokenizer

#: No line breaks and no indentation: a model that may write any number of spaces may go on for ever.
_COMPACT: Final[JsonCompileOptions] = {"whitespace_flexible": False}


class Grammars:
    """Makes constraints for a vocabulary.

    Args:
        tokenizer: Whose tokens an answer has. One that ends answers ends what a grammar has accepted.
        vocabulary: How many logits there are, at least as many as tokens.

    Raises:
        FormatError: The tokenizer has no token that ends an answer.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Vocabulary(tokenizer)))
        self._ends = [*tokenizer.special.ends]

    def of_schema(self, schema: Mapping[str, Any] | None) -> GrammarConstraint:
        """Return the constraint of a JSON schema; None is that of any object.

        Raises:
            FormatError: It is no schema, cannot be met, or has something that cannot be held to; the text says what.
        """
        given = {"type": "object"} if schema is None else schema
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(given), overrides=_COMPACT)
        except (ValueError, TypeError) as error:
            raise FormatError(f"the JSON schema is none that can be held to: {error}") from error
        return self._constraint(grammar, "the JSON schema")

    def of_grammar(self, text: str) -> GrammarConstraint:
        """Return the constraint of a context-free grammar, as Lark writes it; its first rule is ``start``.

        Raises:
            FormatError: It is no grammar; the text says where.
        """
        return self._constraint(llguidance.LLMatcher.grammar_from_lark(text), "the grammar")

    def _constraint(self, grammar: str, what: str) -> GrammarConstraint:
        if wrong := llguidance.LLMatcher.validate_grammar(grammar, self._tokenizer):
            raise FormatError(f"{what} is none that can be held to: {wrong.strip()}")
        matcher = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0)
        constraint = GrammarConstraint(matcher, self._ends, self._vocabulary, what)
        constraint.allowed()  # now, if there is no first token: nothing has run yet
        return constraint


class GrammarConstraint:
    """The `zyx_llm.serving.request.Constraint` of a grammar, for one answer.

    Args:
        matcher: What follows the grammar.
        ends: Tokens that end an answer, which are allowed where it may end.
        vocabulary: How many logits there are.
        what: What the grammar is, for errors.
    """

    def __init__(self, matcher: llguidance.LLMatcher, ends: Sequence[int], vocabulary: int, what: str) -> None:
        self._matcher = matcher
        self._ends = ends
        self._vocabulary = vocabulary
        self._what = what

    def allowed(self) -> NDArray[np.bool_]:
        """Return which tokens may come next, ``(vocabulary,)``.

        Raises:
            FormatError: None may, and the answer may not end either: there is no such text.
        """
        found = np.zeros(self._vocabulary, np.bool_)
        if not self._matcher.is_stopped():
            bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            mask = np.unpackbits(bits, bitorder="little")[: self._vocabulary]
            found[: len(mask)] = mask
        found[self._ends] = self._matcher.is_accepting()
        if self._matcher.is_error() or not found.any():
            reason, *_ = (self._matcher.get_error() or "it has no text").splitlines()  # what follows is its state
            raise FormatError(
                f"{self._what} allows no further token, nor an end ({reason}): no text goes on from here; change it"
            )
        return found

    def take(self, token: int) -> None:
        """Note that a token has come, one that was allowed.

        Raises:
            FormatError: It was not.
        """
        if not self._matcher.consume_token(token):
            raise FormatError(f"token {token} is none that {self._what} allows: {self._matcher.get_error()}")


class _Vocabulary:
    """A tokenizer as llguidance takes one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        special = tokenizer.special
        if not special.ends:
            raise FormatError("the tokenizer has no token that ends an answer: nothing can say that a grammar is met")
        self._tokenizer = tokenizer
        self.eos_token_id = special.eos if special.eos is not None else min(special.ends)
        self.bos_token_id = special.bos
        self.tokens = [tokenizer.bytes_of(token, keep_special=True) for token in range(len(tokenizer))]
        self.special_token_ids = sorted(special.control | special.ends)

    def __call__(self, text: bytes | str) -> list[int]:
        """Return the tokens of a text."""
        whole = text.decode(errors="replace") if isinstance(text, bytes) else text
        return self._tokenizer.encode(whole, parse_special=False, add_special=False)
