"""One transformer for all architectures. Start reading at `zyx_llm.model.transformer`."""

from zyx_llm.model.cache import PAGE, Cache, NoCache, PagedCache
from zyx_llm.model.encoder import Encoder
from zyx_llm.model.loading import load_encoder, load_transformer
from zyx_llm.model.transformer import Transformer

__all__ = ["PAGE", "Cache", "Encoder", "NoCache", "PagedCache", "Transformer", "load_encoder", "load_transformer"]
