"""Talks as the text that a model was trained on. Start reading at `zyx_llm.chat.template`."""

from zyx_llm.chat.template import Template

__all__ = ["Template"]
