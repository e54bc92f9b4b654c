"""The tests' own model server: speaks the Anthropic and OpenAI forms on loopback, and says what the prompt asks for.

Real agents run against it, so that the suite reaches no model service. The prompt steers the answer; the words are
listed in `steering`. `running_model_server()` runs it in a thread of the test, `python -m tests.model_server --port 0`
in a process of its own, which prints its URL.
"""

from .conversation import Asked, Tool
from .recording import Kind, Provider, Recorded, Recording
from .running import ModelServer, running_model_server
from .steering import AFTER_TOOL, chunk_texts

__all__ = [
    "AFTER_TOOL",
    "Asked",
    "Kind",
    "ModelServer",
    "Provider",
    "Recorded",
    "Recording",
    "Tool",
    "chunk_texts",
    "running_model_server",
]
