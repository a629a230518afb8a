"""One transformer for all architectures. Start reading at `zyx_llm.model.transformer`."""

from zyx_llm.model.cache import Cache, NoCache
from zyx_llm.model.encoder import Encoder
from zyx_llm.model.loading import load_encoder, load_transformer
from zyx_llm.model.transformer import Transformer

__all__ = ["Cache", "Encoder", "NoCache", "Transformer", "load_encoder", "load_transformer"]
