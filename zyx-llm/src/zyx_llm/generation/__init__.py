"""Tokens one after the other. Start reading at `zyx_llm.generation.session`."""

from zyx_llm.generation.sampling import Sampling, chosen
from zyx_llm.generation.session import CHUNKS, Session, Step, step_of
from zyx_llm.generation.stops import Stops

__all__ = ["CHUNKS", "Sampling", "Session", "Step", "Stops", "chosen", "step_of"]
