"""What a transformer is, as data, and how files say it. Start reading at `zyx_llm.config.record`."""

from zyx_llm.config.encoder import ENCODERS, EncoderConfig, encoder_of_json, encoder_of_metadata
from zyx_llm.config.of_gguf import config_of_metadata
from zyx_llm.config.of_json import config_of_json
from zyx_llm.config.record import Config, Experts, Rope

__all__ = [
    "ENCODERS",
    "Config",
    "EncoderConfig",
    "Experts",
    "Rope",
    "config_of_json",
    "config_of_metadata",
    "encoder_of_json",
    "encoder_of_metadata",
]
