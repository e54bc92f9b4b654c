"""The Python client library of a gateway: `Interlock` blocks, `AsyncInterlock` is awaited.

from interlock.sdk import Interlock

with Interlock("http://127.0.0.1:7420", key) as gateway: command = gateway.commands.run("ls -l", agent="shell")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy_names import lazy_names
from interlock.sdk import problems

if TYPE_CHECKING:
    from interlock.sdk.async_client import AsyncInterlock
    from interlock.sdk.blocking_client import Interlock
    from interlock.sdk.exchange import RetryPolicy
    from interlock.sdk.follower import Lost, Reattached, StreamEvent, StreamItem
    from interlock.sdk.multiplexer import StreamEnd
    from interlock.sdk.problems import InterlockError, NotAGateway, Refused, StillRunning, Unreachable
    from interlock.sdk.prompt_stream import (
        AgentTextPart,
        ApprovalPart,
        EndPart,
        NoticePart,
        PromptPart,
        ToolEndPart,
        ToolOutputPart,
        ToolStartPart,
        UsagePart,
    )

__getattr__ = lazy_names(__name__, {
    "interlock.sdk.async_client": ("AsyncInterlock",),
    "interlock.sdk.blocking_client": ("Interlock",),
    "interlock.sdk.exchange": ("RetryPolicy",),
    "interlock.sdk.follower": ("Lost", "Reattached", "StreamEvent", "StreamItem"),
    "interlock.sdk.multiplexer": ("StreamEnd",),
    "interlock.sdk.problems": ("InterlockError", "NotAGateway", "Refused", "StillRunning", "Unreachable"),
    "interlock.sdk.prompt_stream": (
        "AgentTextPart",
        "ApprovalPart",
        "EndPart",
        "NoticePart",
        "PromptPart",
        "ToolEndPart",
        "ToolOutputPart",
        "ToolStartPart",
        "UsagePart",
    ),
})

__all__ = [
    "AgentTextPart",
    "ApprovalPart",
    "AsyncInterlock",
    "EndPart",
    "Interlock",
    "InterlockError",
    "Lost",
    "NotAGateway",
    "NoticePart",
    "PromptPart",
    "Reattached",
    "Refused",
    "RetryPolicy",
    "StillRunning",
    "StreamEnd",
    "StreamEvent",
    "StreamItem",
    "ToolEndPart",
    "ToolOutputPart",
    "ToolStartPart",
    "Unreachable",
    "UsagePart",
    "problems",
]
