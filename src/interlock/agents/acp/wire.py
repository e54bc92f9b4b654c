"""The ACP messages that the adapter reads. Tolerant, since agents differ: members that are not read may be anything.

The SDK's own models (pydantic) reject a message for one unknown word, and take ten times as long to decode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from interlock.ports.agent import McpServer

PROTOCOL_VERSION = 1
_RAW = msgspec.Raw(b"")


def mcp_servers(servers: Iterable[McpServer]) -> list[dict[str, Any]]:
    """Return `mcpServers` of `session/new` and `session/load`."""
    return [{"type": "http", "name": one.name, "url": one.url, "headers": _pairs(one.headers)} if one.url else
            {"name": one.name, "command": one.command, "args": list(one.args), "env": _pairs(one.env)}
            for one in servers]


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


class Implementation(msgspec.Struct):
    name: str = ""
    title: str | None = None
    version: str | None = None


class PromptCapabilities(msgspec.Struct, rename="camel"):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class SessionCapabilities(msgspec.Struct):
    resume: dict[str, Any] | None = None


class McpCapabilities(msgspec.Struct):
    http: bool = False


class AgentCapabilities(msgspec.Struct, rename="camel"):
    load_session: bool = False
    session_capabilities: SessionCapabilities = msgspec.field(default_factory=SessionCapabilities)
    mcp_capabilities: McpCapabilities = msgspec.field(default_factory=McpCapabilities)
    prompt_capabilities: PromptCapabilities = msgspec.field(default_factory=PromptCapabilities)
    meta: Any = msgspec.field(name="_meta", default=None)


class Initialized(msgspec.Struct, rename="camel"):
    """Result of `initialize`."""

    protocol_version: int
    agent_capabilities: AgentCapabilities = msgspec.field(default_factory=AgentCapabilities)
    agent_info: Implementation | None = None


class Mode(msgspec.Struct):
    id: str
    name: str = ""
    description: str | None = None


class Modes(msgspec.Struct, rename="camel"):
    current_mode_id: str | None = None
    available_modes: list[Mode] = []


class Model(msgspec.Struct, rename="camel"):
    model_id: str
    name: str = ""
    description: str | None = None


class Models(msgspec.Struct, rename="camel"):
    current_model_id: str | None = None
    available_models: list[Model] = []


class ConfigOption(msgspec.Struct, rename="camel"):
    """One setting of a session; a select's options may be grouped."""

    id: str
    category: str | None = None
    type: str = ""
    current_value: Any = None
    options: list[dict[str, Any]] = []


class ConfigOptions(msgspec.Struct, rename="camel"):
    """`config_option_update`, and the answer to `session/set_config_option`: all options with their current values."""

    config_options: list[ConfigOption] = []


class LoadedSession(msgspec.Struct, rename="camel"):
    """Result of `session/load` and `session/resume`."""

    modes: Modes | None = None
    models: Models | None = None
    config_options: list[ConfigOption] = []


class NewSessionResult(LoadedSession, rename="camel", kw_only=True):
    """Result of `session/new`."""

    session_id: str


class Prompted(msgspec.Struct, rename={"stop_reason": "stopReason", "meta": "_meta"}):
    """Result of `session/prompt`."""

    stop_reason: str = "end_turn"
    usage: Any = None
    meta: dict[str, Any] | None = None


class SessionCost(msgspec.Struct):
    """Cumulative over the agent's session."""

    amount: float = 0.0
    currency: str = "USD"


class Location(msgspec.Struct):
    """A file that a tool call concerns."""

    path: str


class AcpToolCallWire(msgspec.Struct, rename={
    "tool_call_id": "toolCallId", "raw_input": "rawInput", "raw_output": "rawOutput", "meta": "_meta"
}):
    """`tool_call`, `tool_call_update` and the `toolCall` of a permission: every field but the id may be missing."""

    tool_call_id: str
    name: str | None = None
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    raw_input: msgspec.Raw = _RAW
    raw_output: msgspec.Raw = _RAW
    content: list[dict[str, Any]] | None = None
    locations: list[Location] | None = None
    meta: dict[str, Any] | None = None


class AskedCall(msgspec.Struct, rename={"raw_input": "rawInput"}):
    """The `toolCall` of a permission request: its own input and content, verbatim (H-1)."""

    title: str | None = None
    kind: str | None = None
    raw_input: msgspec.Raw = _RAW
    content: msgspec.Raw = _RAW
    locations: list[Location] | None = None


class AskedPermission(msgspec.Struct, rename={"tool_call": "toolCall"}):
    """`session/request_permission`, for its tool call."""

    tool_call: AskedCall


class Chunk(msgspec.Struct, rename={"meta": "_meta"}):
    """`agent_message_chunk`, `agent_thought_chunk`."""

    content: dict[str, Any]
    meta: dict[str, Any] | None = None


class PlanEntry(msgspec.Struct):
    """One step of a plan."""

    content: str = ""
    status: str = "pending"
    priority: str | None = None


class AgentPlan(msgspec.Struct):
    """`plan`: the whole current plan."""

    entries: list[PlanEntry] = []


class UsageUpdate(msgspec.Struct):
    used: int | None = None
    size: int | None = None
    cost: SessionCost | None = None


class CurrentMode(msgspec.Struct, rename="camel"):
    """`current_mode_update`."""

    current_mode_id: str


class _Kind(msgspec.Struct, rename="camel"):
    session_update: str


class Update(msgspec.Struct, rename="camel"):
    """Params of `session/update`; the update is read again by its kind."""

    session_id: str
    update: msgspec.Raw


class PermissionOption(msgspec.Struct, rename="camel"):
    option_id: str
    name: str = ""
    kind: str = ""


class Permission(msgspec.Struct, rename="camel"):
    """Params of `session/request_permission`."""

    session_id: str
    tool_call: AcpToolCallWire
    options: list[PermissionOption] = []


class Elicitation(msgspec.Struct, rename="camel"):
    """Params of `elicitation/create`: a form for the agent's user, described by a JSON schema."""

    session_id: str = ""
    tool_call_id: str | None = None
    mode: str = "form"
    message: str = ""
    requested_schema: Any = None


class CancelRequest(msgspec.Struct, rename="camel"):
    """Params of `$/cancel_request`: the agent no longer waits for our answer."""

    request_id: int | str | float


INITIALIZED = msgspec.json.Decoder(Initialized)
NEW_SESSION = msgspec.json.Decoder(NewSessionResult)
LOADED_SESSION = msgspec.json.Decoder(LoadedSession | None)
CONFIG_OPTIONS = msgspec.json.Decoder(ConfigOptions)
CURRENT_MODE = msgspec.json.Decoder(CurrentMode)
PROMPTED = msgspec.json.Decoder(Prompted)
UPDATE = msgspec.json.Decoder(Update)
KIND = msgspec.json.Decoder(_Kind)
CHUNK = msgspec.json.Decoder(Chunk)
TOOL_CALL = msgspec.json.Decoder(AcpToolCallWire)
PLAN = msgspec.json.Decoder(AgentPlan)
USAGE_UPDATE = msgspec.json.Decoder(UsageUpdate)
ASKED_PERMISSION = msgspec.json.Decoder(AskedPermission)
PERMISSION = msgspec.json.Decoder(Permission)
ELICITATION = msgspec.json.Decoder(Elicitation)
CANCEL_REQUEST = msgspec.json.Decoder(CancelRequest)
ANYTHING = msgspec.json.Decoder()
"""Reads a message whole: raises msgspec.DecodeError for a number that no reader can hold, which a member that is kept
as bytes may have."""


def tool_call(raw: msgspec.Raw) -> AcpToolCallWire:
    """Decode a call's update, and read its input, which is passed on as it came. Raises msgspec.DecodeError."""
    update = TOOL_CALL.decode(raw)
    if update.raw_input:
        ANYTHING.decode(update.raw_input)
    return update


def options_in(answer: bytes) -> list[ConfigOption]:
    """Return the config options in the answer to a setting request; agents answer `null`, `{}` or all of them."""
    try:
        return CONFIG_OPTIONS.decode(answer).config_options
    except msgspec.MsgspecError:
        return []


def text_of(content: list[dict[str, Any]] | None) -> str:
    """Return the text of a tool call's content, one block per line."""
    found: list[str] = []
    for item in content or []:
        block = item.get("content") if item.get("type") == "content" else None
        text = cast("dict[str, Any]", block).get("text") if isinstance(block, dict) else None
        if isinstance(text, str):
            found.append(text)
    return "\n".join(found)
