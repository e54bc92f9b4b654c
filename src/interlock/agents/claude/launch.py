"""Pure but for a look at the disk: with which words and variables Claude Code's program is started.

The SDK's own transport would start it as a child of the runner, with the runner's whole environment. Here it is started
like every other agent, by the runner's supervisor (A-1, A-4), so the words that the SDK would give it stand here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from interlock.agents.workspace_files import ignoring_args
from interlock.ports.agent import AgentStart, AgentStartFailed, McpServer

DISALLOWED = (
    "CronCreate", "CronDelete", "CronList", "EnterWorktree", "ExitWorktree", "Monitor",
    "RemoteTrigger", "ScheduleWakeup",
)  # fmt: skip
"""Tools that no turn of ours can carry: work that begins without a prompt, a workspace other than the
one that was opened."""
OPENS_GATES = frozenset({
    "--allow-dangerously-skip-permissions", "--allowed-tools", "--allowedTools", "--bare",
    "--dangerously-skip-permissions", "--permission-mode", "--permission-prompt-tool", "--print", "--safe-mode",
    "--settings", "-p",
})  # fmt: skip
"""Words in `args` that would let tools run unasked, or that would end the conversation after one answer."""
_WORDS = (
    "--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--include-partial-messages",
    "--permission-prompt-tool", "stdio", "--permission-mode", "default",
)  # fmt: skip
_VARIABLES = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    # A task that outlives its turn would start a turn that no one asked for.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
}
SERVER_VALUE = "MCP_SERVER_VALUE_"
"""How variables begin that hold values for MCP servers."""


class Launch(NamedTuple):
    """What to start, and whether it goes on with a conversation that it had."""

    argv: list[str]
    environment: dict[str, str]
    resumes: bool
    agent_session: str
    """What the conversation is called."""


def launch(opening: AgentStart, bundled: Path) -> Launch:
    """`bundled` is the program that came with the SDK; the config's `command` goes before it. The conversation has the
    session's own id, so that a later opening finds it again. Raises AgentStartFailed for `args` that open gates."""
    spec = opening.spec
    for word in spec.args:
        if word.partition("=")[0] in OPENS_GATES:
            raise AgentStartFailed(
                f"The agent's args hold {word}, which would take its tool calls out of Interlock's hands; remove it."
            )
    program = spec.command or (str(bundled) if bundled.is_file() else "claude")
    servers, secrets = _servers(opening.servers)
    environment = {**opening.environment, **_VARIABLES, **secrets, "PWD": opening.workspace}
    named = opening.agent_session or opening.session_id
    kept = transcript(named, environment)
    resumes = kept and opening.resume
    if resumes:
        words = [f"--resume={named}"]
    else:
        # An id that is taken is refused: a fresh conversation of this session then goes by one of its own.
        named = opening.session_id if not transcript(opening.session_id, environment) else opening.fresh_id
        words = [f"--session-id={named}"]
    # Settings are the user's own: a repository's could run programs and redirect the model without a question (H-13).
    sources = ignoring_args(spec)
    argv = [program, *_WORDS, *sources, f"--disallowedTools={','.join(DISALLOWED)}", *servers, *words, *spec.args]
    return Launch(argv, environment, resumes, named)


def _servers(servers: tuple[McpServer, ...]) -> tuple[list[str], dict[str, str]]:
    """Return the words that add MCP servers to this conversation, and the variables that those words name. Every user
    of the host can read a program's words, so each value of a variable or a header is passed in the environment, from
    which Claude Code fills it in."""
    if not servers:
        return [], {}
    variables = dict[str, str]()

    def named(values: Mapping[str, str]) -> dict[str, str]:
        found = dict[str, str]()
        for name, value in values.items():
            variable = f"{SERVER_VALUE}{len(variables)}"
            variables[variable] = value
            found[name] = f"${{{variable}}}"
        return found

    added: dict[str, dict[str, object]] = {
        one.name: {"type": "http", "url": one.url, "headers": named(one.headers)} if one.url else
        {"type": "stdio", "command": one.command, "args": list(one.args), "env": named(one.env)} for one in servers}
    return [f"--mcp-config={json.dumps({'mcpServers': added})}"], variables


def transcript(session_id: str, environment: Mapping[str, str]) -> bool:
    """Whether Claude Code has kept a conversation of this id."""
    home = environment.get("CLAUDE_CONFIG_DIR") or str(Path(environment.get("HOME", "/")) / ".claude")
    return any((Path(home) / "projects").glob(f"*/{session_id}.jsonl"))
