"""One transformer for all architectures. Start reading at `zyx_llm.model.transformer`."""

from zyx_llm.model.cache import Cache
from zyx_llm.model.loading import load_transformer
from zyx_llm.model.transformer import Transformer

__all__ = ["Cache", "Transformer", "load_transformer"]
