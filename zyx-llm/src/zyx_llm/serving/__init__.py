"""Many requests at a time, answered side by side. Start reading at `zyx_llm.serving.request`."""

from zyx_llm.serving.engine import BatchEngine
from zyx_llm.serving.request import Constraint, Engine, Request, ServerFullError, Ticket, Written

__all__ = ["BatchEngine", "Constraint", "Engine", "Request", "ServerFullError", "Ticket", "Written"]
