"""A model server on loopback whose answers the prompt controls: OpenAI chat and responses, Anthropic and Gemini forms.

Real agents run against it instead of a model service: in `interlock agents check` (H-10), and in the tests. `script`
lists the words with which a prompt controls the answer. `running_model_server()` runs it in a thread of this process,
`python -m interlock.model_stand_in --port 0` in a separate process, which prints its URL.
"""

from .conversation import ModelPrompt, OfferedTool
from .request_log import RecordedRequest, Recording, RequestKind, WireForm
from .script import AFTER_TOOL, chunk_texts
from .server_thread import ModelServer, running_model_server

__all__ = [
    "AFTER_TOOL",
    "ModelPrompt",
    "ModelServer",
    "OfferedTool",
    "RecordedRequest",
    "Recording",
    "RequestKind",
    "WireForm",
    "chunk_texts",
    "running_model_server",
]
