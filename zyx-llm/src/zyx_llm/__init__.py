"""Language models on every device that zyx runs on.

    model = zyx_llm.load("SmolLM2-135M-Instruct.Q4_1.gguf")
    for text in model.answer(model.talk([{"role": "user", "content": "What is the capital of France?"}])):
        print(text, end="", flush=True)

Start reading at `zyx_llm.language_model`; the program is `zyx_llm.program`.
"""

from zyx_llm.embedder import Embedder as Embedder
from zyx_llm.generation import Sampling as Sampling
from zyx_llm.language_model import LanguageModel as LanguageModel
from zyx_llm.language_model import load as load
from zyx_llm.language_model import load_embedder as load_embedder
from zyx_llm.version import __version__ as __version__
