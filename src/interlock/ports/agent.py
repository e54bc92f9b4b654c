"""An agent as the runner drives it: the adapter turns one agent's own protocol into these calls, and nothing else."""

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
"""Write a durable frame that changes nothing here, in a turn or outside one: type, payload (a struct, or msgspec.Raw
for a type that no one here knows, E-1), metadata. Raises InvalidFrame with FRAME_TOO_LARGE where it is too large (L-2).
"""


def check_roots(roots: Iterable[str]) -> None:
    """Raises ValueError for a root that is not absolute: where it lies would depend on where the runner was started."""
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
    """Credentials of the runner's own environment that the agent gets as well, by their variables' names (Y-12)."""
    roots: list[str] = []
    trusted_kinds: bool = False
    name: str | None = None
    asks: bool = True
    """Whether the agent asks before its tools; if not, the whole command is held (A-10)."""
    evidence: Literal["declared", "required"] = "declared"
    """Whether an `acp` agent is believed to ask until a check has seen otherwise, or only once one has seen it (H-10).
    """
    mode: str = ""
    """The mode that an `acp` agent is put into when it opens, in place of its own."""
    modes: list[str] = []
    """Modes that a prompt may name although they are not known to ask before each tool (A-6)."""
    asking_modes: list[str] = []
    """Ids of modes in which an `acp` agent asks before each tool, beside those that Interlock knows of it (H-11)."""
    workspace_files: Literal["ignore", "ask", "trust"] = "ignore"
    """The outcome of files in a workspace that configure the agent: with `ignore` it is made to ignore them if it can
    be, and else they are asked about; with `ask` it reads them after a yes; with `trust` no one is asked (H-13)."""
    model: str = ""
    """`provider/model`, for an agent of ours that asks a model itself (B-1)."""
    base_url: str = ""
    """Where that provider's API is, where it is not the provider's own."""
    api_key_env: str = ""
    """The variable of the runner's environment, or of `env`, that holds the API key."""
    box: BoxSpec | None = None
    """The walls around its processes (H-15); None is as shipped: the state directory is hidden if the host can do it.
    """
    mcp: dict[str, McpSpec] = {}
    """MCP servers that an agent of the adapter `acp` or `claude`, or codex by `exec`, gets in each conversation, by
    name (Y-13)."""
    context_window: int = 0
    """Tokens that the model takes, where its provider's catalog does not say it or is wrong (Z-1)."""

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
        """Whether it is the one program that the adapter exec can hand MCP servers to."""
        return self.adapter == "exec" and self.command.rpartition("/")[2] == "codex"


class Secrets(dict[str, str]):
    """Secrets by the name of their variable; what prints it shows the names alone."""

    def __repr__(self) -> str:
        return f"Keys({', '.join(sorted(self))})"


class McpServer(NamedTuple):
    """A program that speaks MCP on standard input and output, as an agent is to start it; or a server's URL."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Secrets = Secrets()
    url: str = ""
    headers: Secrets = Secrets()


class AgentStart(NamedTuple):
    """What an adapter is given to start an agent with. `environment` is complete (A-1); `workspace` is resolved."""

    session_id: str
    agent_id: str
    spec: AgentSpec
    workspace: str
    environment: dict[str, str]
    relay: Relay | None = None
    """For what an agent reports beside its turns: `session.compacted` (T-6), a frame of its own vendor (E-1)."""
    resume: bool = False
    """Go on with the conversation that the agent had in an earlier opening, where it can."""
    agent_session: str | None = None
    """What the agent called that conversation (`Started.agent_session`); None if it was never reported."""
    workspace_access: Literal["rw", "ro", "none"] = "rw"
    fresh_id: str = ""
    """A UUID of this opening alone, for an agent that wants its new conversation named."""
    hidden: tuple[str, ...] = ()
    """Files and directories that an adapter's own tools must not open, absolute, links resolved (H-15)."""
    box: Box | None = None
    """What holds its processes, as the runner states it (H-18)."""
    keys: Secrets = Secrets()
    """Secrets of the runner's environment that the adapter itself needs: never an agent's process (A-1)."""
    servers: tuple[McpServer, ...] = ()
    """MCP servers that the agent gets for this opening beside its own."""


class Started(NamedTuple):
    """What the agent declared of itself."""

    features: Features
    name: str
    version: str | None = None
    model: str | None = None
    agent_session: str | None = None
    """The agent's own name of its conversation: the runner keeps it, and a later opening gives it back."""
    resumed: bool = False
    """It goes on with the conversation that it had; never True where that was not asked."""
    fresh_because: str | None = None
    """Why it does not, in the agent's own words, where it could have."""
    mode: str | None = None
    """The id of the mode that it is in once it is open; None without modes."""


class AgentStartFailed(Exception):
    """The agent did not come up; the text is one sentence for the user, the agent's own words included."""


class ProcessExit(NamedTuple):
    """How the process ended: exactly one of the two is set."""

    code: int | None
    signal: int | None


class Option(NamedTuple):
    option_id: str
    label: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class AgentQuestion(NamedTuple):
    """What the agent asks (A-5): a permission, or, with `wants` QUESTION, words. `input_json` is the tool's input as
    JSON bytes, as the agent gave it; a question's holds {question, options?}."""

    invocation_id: str | None
    tool_name: str
    title: str
    input_json: bytes
    options: list[Option]
    kind: str | None = None
    """The agent's own word for what the tool does (ACP: read, edit, execute …), None where it says nothing."""
    wants: Literal["PERMISSION", "QUESTION"] = "PERMISSION"
    takes_input: bool = False
    """The agent takes the input as a person changed it (P-2)."""
    locations: tuple[str, ...] = ()
    """Paths that the request names beside its input."""
    content_json: bytes | None = None
    """What the request shows beside its input (ACP: a list of texts and diffs) as JSON bytes."""
    described: bool = False
    """The input does not contain the effect: the request only describes it (H-2)."""
    changed: bool = False
    """The request differs from what was announced under its id before (H-1)."""


class InteractionAnswer(NamedTuple):
    """What the runner decided: `allow` only ever after a yes. `option_id` is one of the once-options (A-9)."""

    allow: bool
    option_id: str | None
    message: str | None = None
    text: str | None = None
    """A person's words to a QUESTION; None is "no answer", and then `allow` is False."""
    updated_input: dict[str, Any] | None = None
    """What the tool is to run with instead, where the question said `takes_input` (P-2)."""


class RequestTokens(NamedTuple):
    """Tokens of one model request. `input_tokens` excludes what was read from or written to the provider's cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class TurnUsage(NamedTuple):
    """What the agent says the turn took; None where it says nothing."""

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
"""Called with what was taken so far."""


class TurnOutcome(NamedTuple):
    """How a prompt ended, as the agent said it. `error` is (code, sentence). `exit_code` is the agent's own report of
    what it ran (shell, exec), shown to the user. `process` is set when the process ended in mid-turn (A-2): then
    `unanswered` says that it ended with 0 without an answer."""

    stop_reason: StopReason
    usage: TurnUsage = TurnUsage()
    error: tuple[str, str] | None = None
    exit_code: int | None = None
    process: ProcessExit | None = None
    unanswered: bool = False
    notice: tuple[str, str] | None = None
    stopped: ProcessExit | None = None
    """How the turn's own process ended because a cancel asked for it; the opening goes on (A-2, A-3)."""


class GivenFile(NamedTuple):
    """A file that an agent gives: what it is called, its media type, its bytes."""

    name: str
    media_type: str
    data: bytes


class Scribe(Protocol):
    """What an adapter writes a turn with. Calls return when the runner can take more: an adapter that awaits them is
    slowed down to what the outbox bears (D-3), and must not read its agent meanwhile."""

    async def text(self, text: str) -> None:
        """Text to the user; a new block begins after each tool call."""
        ...

    async def thinking(self, text: str) -> None: ...

    async def end_block(self) -> None:
        """Close the open block of text or thinking: what follows is a block of its own. Nothing if none is open."""
        ...

    async def tool_request(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None = None,
                           parent_invocation_id: str | None = None, kind: str | None = None) -> None:
        """Announce a tool call once (`kind` goes into metadata.kind); a second call for the same id changes nothing."""
        ...

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None:
        """Report that an announced call runs, or has run, with this input: what was not allowed is noticed (H-3).
        `printed`: a program of it has printed or ended, so that it ran even if it was denied."""
        ...

    async def tool_output(self, invocation_id: str, channel: Channel, text: str) -> None: ...

    async def tool_result(self, invocation_id: str, status: ToolStatus, output_type: OutputType, output: Any) -> None:
        """Close a tool call; `output` None means "what was streamed"."""
        ...

    async def file(self, file: GivenFile, invocation_id: str | None = None) -> None:
        """Send a file to the user; with an `invocation_id` it is what that open call shows."""
        ...

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        """Ask for permission and wait as long as it takes; never raises for a no."""
        ...

    async def usage(self, usage: TurnUsage) -> None:
        """A figure that the agent reported in mid-turn; the last one of each field counts."""
        ...

    async def progress(self, percent: float) -> None:
        """How much of the turn's work is done, 0 to 100: by a plan, or the agent's own figure (S-5)."""
        ...

    async def plan(self, steps: Sequence[PlanStep]) -> None:
        """The agent's whole plan as it stands (J-14); it replaces the one before."""
        ...

    async def warn(self, code: str, message: str) -> None:
        """`agent.error` with severity warning."""
        ...

    async def overflow(self, message: str) -> SessionCompact:
        """Report that the context is too long for the model, and wait for what to summarise (Z-2). Raises
        CompactionFailed. An agent that receives a plan answers it with `compacted`, and continues its turn."""
        ...

    async def compacted(self, made: Compacted | CompactionFailed) -> None:
        """Answer the plan: with the summary, or with why there is none. Raises CompactionFailed for a summary that no
        frame carries (L-2)."""
        ...


class PromptSettings(NamedTuple):
    """How one prompt is to be worked on; None (or nothing) is "as the session is set"."""

    mode: str | None = None
    model: str | None = None
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed in place
    system_append: str | None = None
    silent: bool = False
    context: dict[str, Any] | None = None
    only_if_asks: bool = False
    """Be set only if the agent then asks before its tools: NotAsking otherwise (H-11)."""


class AgentPrompt(NamedTuple):
    """What the agent is asked. `content` holds {type: text|image, …} blocks; text alone is one text block."""

    prompt_id: str
    turn_id: str
    content: list[dict[str, Any]]
    timeout_ms: int | None = None
    continues: bool = False
    """The query goes on in a new turn after one that ended with `tool_use`: nothing new is asked."""
    settings: PromptSettings = PromptSettings()


class Agent(Protocol):
    """One agent for one session. Calls come one at a time but for `cancel`, `pause`, `resume` and `close`.

    Guarantees: after `close` returned, no process that it started is left. `prompt` always returns, also when the
    process dies, hangs after a cancel (the runner closes it) or prints garbage; it never raises for what the agent did.
    """

    async def open(self, opening: AgentStart) -> Started:
        """Start the agent. Raises AgentStartFailed."""
        ...

    async def prompt(self, prompt: AgentPrompt, scribe: Scribe) -> TurnOutcome: ...

    async def cancel(self) -> None:
        """Ask the agent to stop the running prompt; returns at once."""
        ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def close(self) -> ProcessExit | None:
        """End the agent and all its descendants (A-4); None where there was no process."""
        ...

    async def gone(self) -> ProcessExit:
        """Wait until the process ended by itself, in a turn or outside one; never returns for an sdk agent."""
        ...

    def stderr_tail(self) -> str:
        """The last lines of standard error (A-8), "" where there are none."""
        ...


class CompactionFailed(Exception):
    """The agent did not compact its context; the text is one sentence for the user."""


@runtime_checkable
class Compacts(Protocol):
    """An agent whose features say `context_compaction`."""

    async def compact(self, request: SessionCompact, spent: Spent) -> Compacted:
        """Compact the context now; called outside turns only. `spent` is called with what that took, if the agent
        knows it, also if nothing came of it: its running totals, as often as they grow. Raises CompactionFailed."""
        ...


class SettingRefused(Exception):
    """The agent cannot be set so: the text is one sentence for the user, naming what was asked. Nothing has changed."""


class ContextMissing(SettingRefused):
    """The prompt's context goes on from what the agent does not have: it is to be sent whole. Nothing has changed."""


class NotAsking(SettingRefused):
    """The prompt is only for an agent that asks before its tools, and set so it would not. Nothing has changed."""


@runtime_checkable
class MayStopAsking(Protocol):
    """An agent that asks before its tools or not by what it is set to; `features.permission` is how it opened."""

    @property
    def asks(self) -> bool:
        """Whether it asks, as it is set now."""
        ...


@runtime_checkable
class Settable(Protocol):
    """An agent that says what it lets be chosen (J-14)."""

    @property
    def settings(self) -> AgentSettings: ...


@runtime_checkable
class SwitchesMode(Protocol):
    """An agent whose features say `plan_mode`, or name `modes`."""

    async def switch_mode(self, mode: str) -> None:
        """Work in this mode from now on; `default` is the one that it opened in. Raises SettingRefused."""
        ...


@runtime_checkable
class TakesSettings(Protocol):
    """An agent that is set before each prompt: its features say `plan_mode`, `modes`, `model_switch` or
    `prompt_options`."""

    async def settle(self, settings: PromptSettings) -> None:
        """Be set for the prompt that comes next; what is not named goes back to what the session is set to. Called
        outside turns only. Raises SettingRefused."""
        ...
