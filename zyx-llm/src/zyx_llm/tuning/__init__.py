"""Models that learn from texts. Start reading at `zyx_llm.tuning.loop`."""

from zyx_llm.tuning.answers import answered
from zyx_llm.tuning.checkpoints import load_adapters, load_checkpoint, save_checkpoint
from zyx_llm.tuning.loop import Choices, DivergedError, Tuning, loss_of
from zyx_llm.tuning.lora import TARGETS, Adapter, merged, new_adapters, save_merged
from zyx_llm.tuning.merging import save_weights
from zyx_llm.tuning.packing import ROW, Text, batch_of, packed, split
from zyx_llm.tuning.reading import LEARNED, read_tokens

__all__ = [
    "LEARNED", "ROW", "TARGETS", "Adapter", "Choices", "DivergedError", "Text", "Tuning", "answered", "batch_of",
    "load_adapters", "load_checkpoint", "loss_of", "merged", "new_adapters", "packed", "read_tokens",
    "save_checkpoint", "save_merged", "save_weights", "split",
]  # fmt: skip
