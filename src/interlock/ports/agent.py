"""An agent as the runner drives it. An adapter only translates between its agent's protocol and these calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from interlock.box.spec import BoxSpec
from interlock.ports.mcp_spec import McpSpec, check_passed, check_servers
from interlock.protocol.box import Box
from interlock.protocol.payloads import (
    AgentSettings,
    Channel,
    Compacted,
    Features,
    OutputType,
    PlanStep,
    SessionCompact,
    StopReason,
    ToolStatus,
)

Relay = Callable[[str, Any, dict[str, Any]], Awaitable[None]]
"""Writes a durable frame that changes no state here, during a turn or outside one: type, payload (a struct, or
msgspec.Raw for a type unknown to this version, E-1), metadata. Raises InvalidFrame with FRAME_TOO_LARGE if it is too
large (L-2).
"""


def check_roots(roots: Iterable[str]) -> None:
    """Raise ValueError if a root is not absolute: its location would depend on the runner's working directory."""
    for root in roots:
        if not root.startswith("/"):
            raise ValueError(f"roots: {root!r} is not an absolute path; write it from / on")


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.<id>]` of the config (G-1): the runner's part."""

    adapter: str
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    env_pass: list[str] = []
    """Names of variables with credentials in the runner's environment that the agent also receives (Y-12)."""
    roots: list[str] = []
    trusted_kinds: bool = False
    name: str | None = None
    asks: bool = True
    """Whether the agent asks before its tools; if not, the whole command is held (A-10)."""
    evidence: Literal["declared", "required"] = "declared"
    """Whether an `acp` agent is trusted to ask until a check shows otherwise, or only after a check has shown it
    (H-10).
    """
    mode: str = ""
    """The mode that an `acp` agent is set to when it opens, instead of its own."""
    modes: list[str] = []
    """Modes that a prompt may name although they are not known to ask before each tool call (A-6)."""
    asking_modes: list[str] = []
    """Ids of modes in which an `acp` agent asks before each tool call, in addition to the built-in ones (H-11)."""
    workspace_files: Literal["ignore", "ask", "trust"] = "ignore"
    """How to treat workspace files that configure the agent: with `ignore` the agent ignores them if it can, and
    approvers are asked otherwise; with `ask` it reads them after a yes; with `trust` it reads them without a question
    (H-13)."""
    model: str = ""
    """`provider/model`, for a built-in agent that calls a model itself (B-1)."""
    base_url: str = ""
    """Base URL of the provider's API, if it is not the provider's default."""
    api_key_env: str = ""
    """The variable, in the runner's environment or in `env`, that holds the API key."""
    box: BoxSpec | None = None
    """The walls around the agent's processes (H-15); None is the default: the state directory is hidden if the host
    supports it.
    """
    mcp: dict[str, McpSpec] = {}
    """MCP servers, by name, that an agent of the adapter `acp` or `claude`, or codex by `exec`, gets in each
    conversation (Y-13)."""
    context_window: int = 0
    """Size of the model's context window in tokens, if the provider's catalog does not state it or is wrong (Z-1)."""

    def __post_init__(self) -> None:
        check_roots(self.roots)
        check_passed(self.env_pass, self.env)
        if (self.mode or self.modes or self.asking_modes) and self.adapter != "acp":
            raise ValueError("mode: only agents of the adapter acp take `mode`, `modes` and `asking_modes`")
        if self.mcp and self.adapter not in ("acp", "claude") and not self._is_codex:
            raise ValueError("mcp: only agents of the adapters acp and claude, and codex by exec, take MCP servers "
                             "from this config")
        check_servers(self.mcp)
        if self.context_window < 0:
            raise ValueError("context_window: tokens, so not below 0")

    @property
    def _is_codex(self) -> bool:
        """Return whether this is codex, the only program that the exec adapter can pass MCP servers to."""
        return self.adapter == "exec" and self.command.rpartition("/")[2] == "codex"


class Secrets(dict[str, str]):
    """Secrets by variable name; its representation shows the names only."""

    def __repr__(self) -> str:
        return f"Keys({', '.join(sorted(self))})"


class McpServer(NamedTuple):
    """An MCP server that an agent starts (a program that serves MCP on standard input and output), or a server's
    URL."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Secrets = Secrets()
    url: str = ""
    headers: Secrets = Secrets()


class AgentStart(NamedTuple):
    """The parameters that an adapter starts an agent with. `environment` is complete (A-1); `workspace` is resolved."""

    session_id: str
    agent_id: str
    spec: AgentSpec
    workspace: str
    environment: dict[str, str]
    relay: Relay | None = None
    """Sends what an agent reports outside its turns: `session.compacted` (T-6), a vendor's own frame (E-1)."""
    resume: bool = False
    """Resume the conversation of the agent's earlier opening, if possible."""
    agent_session: str | None = None
    """The agent's id of that conversation (`Started.agent_session`); None if it was never reported."""
    workspace_access: Literal["rw", "ro", "none"] = "rw"
    fresh_id: str = ""
    """A UUID of this opening only, for an agent that needs an id for its new conversation."""
    hidden: tuple[str, ...] = ()
    """Files and directories that an adapter's own tools must not open: absolute paths, links resolved (H-15)."""
    box: Box | None = None
    """The box around its processes, as the runner reports it (H-18)."""
    keys: Secrets = Secrets()
    """Secrets of the runner's environment for the adapter itself; they never reach an agent's process (A-1)."""
    servers: tuple[McpServer, ...] = ()
    """MCP servers that the agent gets for this opening in addition to its own."""


class Started(NamedTuple):
    """What the agent declared about itself."""

    features: Features
    name: str
    version: str | None = None
    model: str | None = None
    agent_session: str | None = None
    """The agent's own id of its conversation: the runner stores it and passes it to a later opening."""
    resumed: bool = False
    """Whether it resumed its earlier conversation; never True if that was not requested."""
    fresh_because: str | None = None
    """Why it did not resume although it could have, in the agent's own words."""
    mode: str | None = None
    """The id of its mode after opening; None if it has no modes."""


class AgentStartFailed(Exception):
    """Raised if the agent did not start; the text is one sentence for the user that includes the agent's own words."""


class ProcessExit(NamedTuple):
    """How the process ended: exactly one of the two fields is set."""

    code: int | None
    signal: int | None


class Option(NamedTuple):
    option_id: str
    label: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class AgentQuestion(NamedTuple):
    """A question of the agent (A-5): for permission or, with `interaction_type` QUESTION, for a text. `input_json`
    contains the tool's input as JSON bytes, as the agent sent it; a question's is {question, options?}."""

    invocation_id: str | None
    tool_name: str
    title: str
    input_json: bytes
    options: list[Option]
    kind: str | None = None
    """The agent's own word for the kind of tool (ACP: read, edit, execute …); None if it sends none."""
    interaction_type: Literal["PERMISSION", "QUESTION"] = "PERMISSION"
    takes_input: bool = False
    """Whether the agent accepts an input that a person changed (P-2)."""
    locations: tuple[str, ...] = ()
    """Paths that the request names beside its input."""
    content_json: bytes | None = None
    """Content that the request shows besides its input (ACP: a list of texts and diffs), as JSON bytes."""
    described: bool = False
    """Whether the input lacks the effect, which the request only describes (H-2)."""
    changed: bool = False
    """Whether the request differs from what was announced before under its id (H-1)."""


class InteractionAnswer(NamedTuple):
    """The runner's decision. `allow` is set only after a yes. `option_id` is one of the once-options (A-9)."""

    allow: bool
    option_id: str | None
    message: str | None = None
    text: str | None = None
    """A person's answer to a QUESTION; None is "no answer", and then `allow` is False."""
    updated_input: dict[str, Any] | None = None
    """The input to run the tool with instead, if the question had `takes_input` set (P-2)."""


class RequestTokens(NamedTuple):
    """Tokens of one model request. `input_tokens` excludes those read from or written to the provider's cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class TurnUsage(NamedTuple):
    """The usage of a turn as the agent reports it; None for figures it does not report."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    thinking_tokens: int | None = None
    cost_usd: float | None = None
    context_capacity: int | None = None
    context_used: int | None = None
    request: RequestTokens | None = None
    """The turn's last model request alone."""


Spent = Callable[[TurnUsage], None]
"""Called with the usage so far."""


class TurnOutcome(NamedTuple):
    """How a prompt ended, as reported by the agent. `error` is (code, sentence). `exit_code` is the agent's own report
    of what it ran (shell, exec), shown to the user. `process` is set if the process ended during the turn (A-2): then
    `unanswered` means that it exited with 0 without an answer."""

    stop_reason: StopReason
    usage: TurnUsage = TurnUsage()
    error: tuple[str, str] | None = None
    exit_code: int | None = None
    process: ProcessExit | None = None
    unanswered: bool = False
    notice: tuple[str, str] | None = None
    stopped: ProcessExit | None = None
    """How the turn's own process ended after a cancel; the opening continues (A-2, A-3)."""


class AgentFile(NamedTuple):
    """A file from an agent: its name, media type and bytes."""

    name: str
    media_type: str
    data: bytes


class TurnWriter(Protocol):
    """The writer of a turn for an adapter. Calls return when the runner can accept more: an adapter that awaits them is
    slowed to the outbox's rate (D-3), and must not read from its agent meanwhile."""

    async def text(self, text: str) -> None:
        """Append text for the user; a new block begins after each tool call."""
        ...

    async def thinking(self, text: str) -> None: ...

    async def end_block(self) -> None:
        """Close the open block of text or thinking, so that the next text begins a new block. Does nothing if none is
        open."""
        ...

    async def tool_request(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None = None,
                           parent_invocation_id: str | None = None, kind: str | None = None) -> None:
        """Announce a tool call once (`kind` goes into metadata.kind); a second call for the same id changes nothing."""
        ...

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None:
        """Report that an announced call runs, or has run, with this input, so that calls that were not allowed are
        noticed (H-3). `printed`: one of its programs has printed or ended, so it ran even if it was denied."""
        ...

    async def tool_output(self, invocation_id: str, channel: Channel, text: str) -> None: ...

    async def tool_result(self, invocation_id: str, status: ToolStatus, output_type: OutputType, output: Any) -> None:
        """Close a tool call; `output` None means "the output that was streamed"."""
        ...

    async def file(self, file: AgentFile, invocation_id: str | None = None) -> None:
        """Send a file to the user; with `invocation_id`, as output of that open call."""
        ...

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        """Ask for permission and wait without a time limit; never raises for a denial."""
        ...

    async def usage(self, usage: TurnUsage) -> None:
        """Record usage that the agent reported during the turn; the last value of each field counts."""
        ...

    async def progress(self, percent: float) -> None:
        """Report how much of the turn's work is done, 0 to 100, from a plan or the agent's own figure (S-5)."""
        ...

    async def plan(self, steps: Sequence[PlanStep]) -> None:
        """Send the agent's complete plan (J-14); it replaces the previous one."""
        ...

    async def warn(self, code: str, message: str) -> None:
        """Send `agent.error` with severity warning."""
        ...

    async def overflow(self, message: str) -> SessionCompact:
        """Report that the context exceeds the model's limit, and wait for the plan of what to summarise (Z-2). Raises
        CompactionFailed. An agent that receives a plan answers it with `compacted`, and continues its turn."""
        ...

    async def compacted(self, made: Compacted | CompactionFailed) -> None:
        """Answer the plan with the summary, or with the reason why there is none. Raises CompactionFailed for a summary
        that exceeds a frame (L-2)."""
        ...


class PromptSettings(NamedTuple):
    """The settings for one prompt; None (or empty) means "as the session is set"."""

    mode: str | None = None
    model: str | None = None
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed in place
    system_append: str | None = None
    silent: bool = False
    context: dict[str, Any] | None = None
    only_if_asks: bool = False
    """Apply only if the agent then asks before its tool calls; raises NotAsking otherwise (H-11)."""


class AgentPrompt(NamedTuple):
    """A prompt to the agent. `content` holds {type: text|image, …} blocks; plain text is one text block."""

    prompt_id: str
    turn_id: str
    content: list[dict[str, Any]]
    timeout_ms: int | None = None
    continues: bool = False
    """Whether the query continues in a new turn after one that ended with `tool_use`, without a new prompt."""
    settings: PromptSettings = PromptSettings()


class Agent(Protocol):
    """One agent for one session. Calls are made one at a time except for `cancel`, `pause`, `resume` and `close`.

    Guarantees: after `close` returned, none of its processes is left. `prompt` always returns, even if the process
    dies, hangs after a cancel (the runner closes it) or prints garbage; it never raises because of the agent's
    behaviour.
    """

    async def open(self, opening: AgentStart) -> Started:
        """Start the agent. Raises AgentStartFailed."""
        ...

    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome: ...

    async def cancel(self) -> None:
        """Ask the agent to stop the running prompt; returns at once."""
        ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def close(self) -> ProcessExit | None:
        """End the agent and all its descendants (A-4); None if there was no process."""
        ...

    async def gone(self) -> ProcessExit:
        """Wait until the process has ended by itself, during a turn or outside one; never returns for an sdk agent."""
        ...

    def stderr_tail(self) -> str:
        """Return the last lines of standard error (A-8); "" if there are none."""
        ...


class CompactionFailed(Exception):
    """Raised if the agent did not compact its context; the text is one sentence for the user."""


@runtime_checkable
class Compacts(Protocol):
    """An agent whose features include `context_compaction`."""

    async def compact(self, request: SessionCompact, spent: Spent) -> Compacted:
        """Compact the context now; called outside turns only. `spent` is called with the running totals of the usage
        whenever they grow, if the agent reports them, even if the compaction fails. Raises CompactionFailed."""
        ...


class SettingRefused(Exception):
    """Raised if the agent cannot apply a setting, which the text names in one sentence for the user. Nothing has
    changed."""


class ContextMissing(SettingRefused):
    """Raised if the prompt's context builds on a part that the agent does not have: it must be sent whole. Nothing has
    changed."""


class NotAsking(SettingRefused):
    """Raised if the prompt requires an agent that asks before its tool calls, and with these settings it would not.
    Nothing has changed."""


@runtime_checkable
class MayStopAsking(Protocol):
    """An agent whose settings determine whether it asks before its tool calls; `features.permission` is its state at
    opening."""

    @property
    def asks(self) -> bool:
        """Return whether it asks with its current settings."""
        ...


@runtime_checkable
class Settable(Protocol):
    """An agent that reports its available settings (J-14)."""

    @property
    def settings(self) -> AgentSettings: ...


@runtime_checkable
class SwitchesMode(Protocol):
    """An agent whose features include `plan_mode` or name `modes`."""

    async def switch_mode(self, mode: str) -> None:
        """Switch to this mode; `default` is the mode that it opened in. Raises SettingRefused."""
        ...


@runtime_checkable
class TakesSettings(Protocol):
    """An agent that is configured before each prompt: its features include `plan_mode`, `modes`, `model_switch` or
    `prompt_options`."""

    async def settle(self, settings: PromptSettings) -> None:
        """Apply the settings for the next prompt; settings that are not named return to the session's. Called outside
        turns only. Raises SettingRefused."""
        ...
