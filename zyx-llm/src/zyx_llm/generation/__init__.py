"""Tokens one after the other. Start reading at `zyx_llm.generation.session`."""

from zyx_llm.generation.batch import generate_all
from zyx_llm.generation.reader import CHUNKS, Step, check_of, step_of
from zyx_llm.generation.sampling import Sampling, chosen
from zyx_llm.generation.session import Session
from zyx_llm.generation.stops import Stops

__all__ = ["CHUNKS", "Sampling", "Session", "Step", "Stops", "check_of", "chosen", "generate_all", "step_of"]
