"""The arguments and variables with which Claude Code's program is started. Pure except for a check of the disk.

The SDK's own transport would start it as a child of the runner, with the runner's whole environment. Here the runner's
supervisor starts it like every other agent (A-1, A-4), so this module has the arguments that the SDK would pass.
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
"""Tools that our turns cannot represent: work that begins without a prompt, a workspace other than the one that was
opened."""
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
    # A task that outlives its turn would start a turn without a prompt.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
}
SERVER_VALUE = "MCP_SERVER_VALUE_"
"""Prefix of variables that contain values for MCP servers."""


class Launch(NamedTuple):
    """The command to start, and whether it resumes an earlier conversation."""

    argv: list[str]
    environment: dict[str, str]
    resumes: bool
    agent_session: str
    """The id of the conversation."""


def launch(opening: AgentStart, bundled: Path) -> Launch:
    """Return how to start it. `bundled` is the program in the SDK's wheel; the config's `command` replaces it. The
    conversation has the session's own id, so that a later opening finds it. Raises AgentStartFailed for `args` that
    disable permission checks."""
    spec = opening.spec
    for word in spec.args:
        if word.partition("=")[0] in OPENS_GATES:
            raise AgentStartFailed(
                f"The agent's args contain {word}, which would let its tool calls bypass Interlock; remove it."
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
        # A used id is refused: a fresh conversation of this session then gets another one.
        named = opening.session_id if not transcript(opening.session_id, environment) else opening.fresh_id
        words = [f"--session-id={named}"]
    # Only the user's settings: a repository's could run programs and redirect the model without a question (H-13).
    sources = ignoring_args(spec)
    argv = [program, *_WORDS, *sources, f"--disallowedTools={','.join(DISALLOWED)}", *servers, *words, *spec.args]
    return Launch(argv, environment, resumes, named)


def _servers(servers: tuple[McpServer, ...]) -> tuple[list[str], dict[str, str]]:
    """Return the words that add MCP servers to this conversation, and the variables that those words name. Every user
    of the host can read a program's arguments, so each value of a variable or a header is passed in the environment,
    from which Claude Code inserts it."""
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
    """Return whether Claude Code has stored a conversation with this id."""
    home = environment.get("CLAUDE_CONFIG_DIR") or str(Path(environment.get("HOME", "/")) / ".claude")
    return any((Path(home) / "projects").glob(f"*/{session_id}.jsonl"))
