"""Language models on every device that zyx runs on.

    model = zyx_llm.load("SmolLM2-135M-Instruct.Q4_1.gguf")
    for text in model.answer("The capital of France is"):
        print(text, end="")

Start reading at `zyx_llm.model`; the program is `zyx_llm.program`.
"""

from zyx_llm.version import __version__ as __version__
