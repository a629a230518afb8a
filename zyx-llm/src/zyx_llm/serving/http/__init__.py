"""A server that clients of OpenAI's interface speak to, over HTTP. Start reading at `zyx_llm.serving.http.app`."""

from zyx_llm.serving.http.app import Limits, app_of

__all__ = ["Limits", "app_of"]
