"""A model server on loopback that answers as the prompt asks: OpenAI chat and responses, Anthropic and Gemini forms.

Real agents run against it where no model service is wanted: in `interlock agents check` (H-10), and in the tests. The
prompt steers the answer; the words are listed in `script`. `running_model_server()` runs it in a thread of this
process, `python -m interlock.model_stand_in --port 0` in a process of its own, which prints its URL.
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
