"""What a transformer is, as data, and how files say it. Start reading at `zyx_llm.config.record`."""

from zyx_llm.config.of_gguf import config_of_metadata
from zyx_llm.config.of_json import config_of_json
from zyx_llm.config.record import Config, Rope

__all__ = ["Config", "Rope", "config_of_json", "config_of_metadata"]
