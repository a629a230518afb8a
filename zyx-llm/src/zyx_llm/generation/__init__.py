"""Tokens one after the other. Start reading at `zyx_llm.generation.session`."""

from zyx_llm.generation.batch import generate_all
from zyx_llm.generation.reader import CHUNKS, Step, check_of, chunk, step_of
from zyx_llm.generation.sampling import Sampling, chosen, chosen_of_rows, settings_of
from zyx_llm.generation.session import Session, check_tokens
from zyx_llm.generation.stops import Stops

__all__ = [
    "CHUNKS", "Sampling", "Session", "Step", "Stops", "check_of", "check_tokens", "chosen", "chosen_of_rows", "chunk",
    "generate_all", "settings_of", "step_of",
]  # fmt: skip
