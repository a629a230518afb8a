"""Models that learn from texts. Start reading at `zyx_llm.tuning.loop`."""

from zyx_llm.tuning.checkpoints import load_adapters, load_checkpoint, save_checkpoint
from zyx_llm.tuning.loop import Choices, DivergedError, Tuning, loss_of
from zyx_llm.tuning.lora import TARGETS, Adapter, merged, new_adapters, save_merged
from zyx_llm.tuning.packing import batch_of, packed, split
from zyx_llm.tuning.reading import read_tokens

__all__ = [
    "TARGETS", "Adapter", "Choices", "DivergedError", "Tuning", "batch_of", "load_adapters", "load_checkpoint",
    "loss_of", "merged", "new_adapters", "packed", "read_tokens", "save_checkpoint", "save_merged", "split",
]  # fmt: skip
