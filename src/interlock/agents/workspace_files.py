"""Files of a workspace that configure an agent (H-13), as data: their effects, and how an agent ignores them.

A cloned repository may contain them, and an agent that is driven over a protocol does not ask whether to trust the
directory. Each line was tested with the agent itself, or is in its documentation; a place ending in `/` is everything
below that directory. Instructions in prose (AGENTS.md and similar) are not listed: they steer the model, and the
model's tool calls are asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from interlock.ports.agent import AgentSpec

Effect = Literal["runs programs", "starts MCP servers", "allows tools without asking", "redirects its model"]
RUNS: Effect = "runs programs"
SERVES: Effect = "starts MCP servers"
ALLOWS: Effect = "allows tools without asking"
REDIRECTS: Effect = "redirects its model"
SOURCES = "--setting-sources"
"""The argument that selects Claude Code's setting sources."""
USER_SOURCES = "user"
_NONE: Mapping[str, Any] = MappingProxyType({})


class FilePlace(NamedTuple):
    """A file, or everything below a directory, relative to the workspace or a directory above it in the repository."""

    path: str
    could: tuple[Effect, ...]


class Reads(NamedTuple):
    """The files that an agent reads from a workspace, and how to prevent that."""

    places: tuple[FilePlace, ...]
    env: Mapping[str, str] = _NONE
    """With all of these variables it ignores the places."""
    session_meta: Mapping[str, Any] = _NONE
    """With this in `_meta` of ACP's `session/new` it ignores them."""
    by_args: bool = False
    """It ignores them with SOURCES in its arguments, as set by the adapter."""


_ALL: tuple[Effect, ...] = (RUNS, SERVES, ALLOWS, REDIRECTS)
_MCP = FilePlace(".mcp.json", (SERVES,))
_CLAUDE = (
    FilePlace(".claude/settings.json", _ALL), FilePlace(".claude/settings.local.json", _ALL), _MCP,
    FilePlace(".claude/commands/", (RUNS, ALLOWS)), FilePlace(".claude/agents/", (ALLOWS,)),
    FilePlace(".claude/skills/", (RUNS, ALLOWS)), FilePlace(".claude/hooks/", (RUNS,)),
)
_OPEN_CODE = (
    FilePlace("opencode.json", _ALL), FilePlace("opencode.jsonc", _ALL), FilePlace(".opencode/", _ALL),
)
_CODEX = Reads((FilePlace(".codex/", _ALL), FilePlace(".agents/plugins/", (RUNS, SERVES))))
_CLAUDE_PROGRAM = Reads(_CLAUDE)

READS: Mapping[str, Reads] = {
    "claude": _CLAUDE_PROGRAM,
    "claude-agent-acp": Reads(
        _CLAUDE, session_meta={"claudeCode": {"options": {"settingSources": [USER_SOURCES]}}}),
    "codex": _CODEX,
    "codex-acp": _CODEX,
    "copilot": Reads((
        FilePlace(".github/hooks/", (RUNS, ALLOWS)), FilePlace(".github/copilot/", _ALL), FilePlace(".copilot/", _ALL),
        _MCP,
        FilePlace(".vscode/mcp.json", (SERVES,)), FilePlace(".github/agents/", (ALLOWS,)), *_CLAUDE[:2])),
    "gemini": Reads((FilePlace(".gemini/", _ALL), FilePlace(".env", (REDIRECTS,)))),
    "goose": Reads((
        FilePlace(".agents/plugins/", (RUNS, SERVES)), FilePlace(".goose/", _ALL),
        FilePlace(".claude/plugins/", (RUNS, SERVES)))),
    "hermes-acp": Reads((FilePlace(".hermes/", _ALL), FilePlace("cli-config.yaml", _ALL))),
    "kilo": Reads((
        FilePlace("kilo.json", _ALL), FilePlace("kilo.jsonc", _ALL), FilePlace(".kilo/", _ALL),
        FilePlace(".kilocode/", _ALL),
        *_OPEN_CODE), env={"KILO_DISABLE_PROJECT_CONFIG": "1"}),
    "kimi": Reads((FilePlace(".kimi-code/", _ALL), FilePlace(".kimi/", _ALL), _MCP)),
    "opencode": Reads(_OPEN_CODE, env={"OPENCODE_DISABLE_PROJECT_CONFIG": "1"}),
    "pi-acp": Reads((FilePlace(".pi/settings.json", _ALL), FilePlace(".pi/extensions/", (RUNS,)),
                     FilePlace(".pi/npm/", (RUNS,)))),
    "qwen": Reads((
        FilePlace(".qwen/settings.json", _ALL), FilePlace(".qwen/settings.local.json", _ALL),
        FilePlace(".qwen/extensions/", _ALL),
        FilePlace(".qwen/agents/", (ALLOWS,)), FilePlace(".qwen/hooks/", (RUNS,)),
        FilePlace(".qwen/commands/", (RUNS,)),
        FilePlace(".qwen/skills/", (RUNS, ALLOWS)), FilePlace(".qwen/.env", (REDIRECTS,)), _MCP)),
    "vibe-acp": Reads((FilePlace(".vibe/", _ALL),)),
}
"""By the name of the agent's program."""
CLAUDE_ADAPTER = Reads(_CLAUDE, by_args=True)
"""Claude Code as the `claude` adapter starts it."""
_ALIASES = {
    "gemini-cli": "gemini", "qwen-code": "qwen", "opencode-ai": "opencode", "claude-code": "claude", "vibe": "vibe-acp",
    "claude-code-acp": "claude-agent-acp", "kimi-code": "kimi", "kimi-cli": "kimi", "hermes": "hermes-acp",
    "pi": "pi-acp", "cli": "kilo",
}
"""Names of packages, as `npx` and `uvx` start them, and of programs that read the same files."""
_LAUNCHERS = frozenset({"npx", "bunx", "pnpx", "uvx", "node", "bun", "deno", "env", "sh", "bash"})
"""Programs that start the agent named in their arguments."""
_OWN_PROGRAM = "interlock.shell_agent"
NOTHING = Reads(())
ANYTHING = Reads(tuple({place.path: place for reads in READS.values() for place in reads.places
                        if place.path not in (".env", "cli-config.yaml")}.values()))
"""Files that an unknown agent may read: a wrapper around a known one reads the same files."""


def reads_of(spec: AgentSpec) -> Reads:
    """Return the table's line for a configured agent. Unknown `exec` programs, and our own agents, read nothing."""
    if spec.adapter == "claude":
        return CLAUDE_ADAPTER
    if spec.adapter not in ("acp", "exec") or _OWN_PROGRAM in spec.args:
        return NOTHING
    found = next((READS[name] for word in _words(spec) if (name := _name(word)) in READS), None)
    if found is not None:
        return found
    return ANYTHING if spec.adapter == "acp" else NOTHING


def ignoring_env(spec: AgentSpec) -> Mapping[str, str]:
    """Return the variables that make the agent ignore these files, if its config requests that."""
    return reads_of(spec).env if spec.workspace_files == "ignore" else _NONE


def ignoring_meta(spec: AgentSpec) -> Mapping[str, Any]:
    """Return the members of `_meta` of `session/new` for the same purpose."""
    return reads_of(spec).session_meta if spec.workspace_files == "ignore" and spec.adapter == "acp" else _NONE


def ignoring_args(spec: AgentSpec) -> tuple[str, ...]:
    """Return the arguments for the same purpose; none if the config names setting sources itself."""
    named = any(word.partition("=")[0] == SOURCES for word in spec.args)
    return (SOURCES, USER_SOURCES) if spec.workspace_files == "ignore" and not named else ()


def places_read(spec: AgentSpec, environment: Mapping[str, str]) -> tuple[FilePlace, ...]:
    """Return the places that the agent would read in this environment; not those that it is known to ignore, and none
    if the config trusts them all."""
    reads = reads_of(spec)
    if spec.workspace_files == "trust" or _ignores(spec, reads, environment):
        return ()
    return reads.places


def _ignores(spec: AgentSpec, reads: Reads, environment: Mapping[str, str]) -> bool:
    if reads.by_args:
        return _sources([*ignoring_args(spec), *spec.args]) <= {USER_SOURCES}
    if reads.session_meta and spec.adapter == "acp":
        return spec.workspace_files == "ignore"
    return bool(reads.env) and all(environment.get(name) == value for name, value in reads.env.items())


def _sources(words: Sequence[str]) -> set[str]:
    """Return the setting sources that a command line names, `project` if it names none."""
    found: set[str] = set()
    named = False
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == SOURCES:
            named = True
            value = value if equals else words[at + 1] if at + 1 < len(words) else ""
            found |= {one.strip() for one in value.split(",") if one.strip()}
    return found if named else {"project"}


def _words(spec: AgentSpec) -> list[str]:
    """Return the program, and the arguments that select what a launcher starts."""
    return [spec.command, *(spec.args if PurePath(spec.command).name in _LAUNCHERS else ())]


def _name(word: str) -> str:
    """Return a program's or a package's bare name: `npx -y @google/gemini-cli@1.2` starts gemini-cli."""
    name = PurePath(word).name
    name = name.partition("@")[0] or name
    for suffix in (".js", ".mjs", ".cjs", ".exe", ".cmd"):
        name = name.removesuffix(suffix)
    return _ALIASES.get(name, name)
