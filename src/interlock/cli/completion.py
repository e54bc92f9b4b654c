"""`interlock completion`: complete verbs, options and ids with Tab; ids come from the gateway, quickly or not at all
(G-7)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from interlock.cli.config.place import Where, write_private
from interlock.cli.display.terminal import result, say
from interlock.cli.exit_status import BY_STATE, ExitStatus
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.short_ids import LAST
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.access import LIST_KEYS
from interlock.protocol.api.approvals import LIST_APPROVALS
from interlock.protocol.api.commands import LIST_COMMANDS
from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.api.runners import LIST_RUNNERS
from interlock.protocol.api.sessions import LIST_SESSIONS

ASK_S = 1.0
"""Time for the gateway to answer; after it, Tab completes no ids, without a message."""
MOST = 200
"""Maximum number of offered ids; with more, type a further character."""

BASH = """\
# Completion of interlock for bash.
_interlock() {
  local IFS=$'\\n'
  COMPREPLY=($(interlock __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _interlock interlock
"""
ZSH = """\
#compdef interlock
# Completion of interlock for zsh.
_interlock() {
  local -a found
  found=("${(@f)$(interlock __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
if [[ "$funcstack[1]" == "_interlock" ]]; then _interlock "$@"; else compdef _interlock interlock; fi
"""
FISH = """\
# Completion of interlock for fish.
complete -c interlock -a '(interlock __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"""

Print = Annotated[bool, Parameter(name="--print", help="Print the script, and write no file.")]
Install = Annotated[bool, Parameter(help="Write the script to the directory where the shell looks for it.")]


Row = dict[str, Any]


def _any(_: Row) -> bool:
    return True


def _pending(row: Row) -> bool:
    return row.get("state") == "pending"


def _at_work(row: Row) -> bool:
    return row.get("state") not in BY_STATE


def _accepted(row: Row) -> bool:
    return not row.get("revoked")


class Ids(NamedTuple):
    """The ids that a verb takes: their list at the gateway, the member with the id, and which of them fit."""

    path: str
    name: str
    fits: Callable[[Row], bool] = _any


_COMMANDS = Ids(LIST_COMMANDS.at(), "id")
_SESSIONS = Ids(LIST_SESSIONS.at(), "session_id")
_PENDING = Ids(LIST_APPROVALS.at(), "id", _pending)
_RUNNERS = Ids(LIST_RUNNERS.at(), "runner_id", _accepted)
TAKES: dict[str, tuple[Ids, ...]] = {
    "attach": (_COMMANDS, _SESSIONS), "tasks": (_COMMANDS,), "sessions": (_SESSIONS,),
    "cancel": (Ids(LIST_COMMANDS.at(), "id", _at_work),),
    "approve": (_PENDING,), "deny": (_PENDING,), "answer": (_PENDING,), "withdraw": (_PENDING,),
    "approvals": (Ids(LIST_APPROVALS.at(), "id"),),
    "sessions compact": (_SESSIONS,), "sessions files": (_SESSIONS,), "sessions save": (_SESSIONS,),
    "runner take": (_SESSIONS,), "runners rotate": (_RUNNERS,), "runners revoke": (_RUNNERS,),
    "keys revoke": (Ids(LIST_KEYS.at(), "key_id"),), "keys rotate": (Ids(LIST_KEYS.at(), "key_id"),),
}


def bash(*, print_: Print = False, install: Install = False) -> int:
    """Set up completion for bash."""
    home = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    return _give(BASH, home / "bash-completion/completions/interlock", "open a new shell",
                 print_=print_, install=install)


def zsh(*, print_: Print = False, install: Install = False) -> int:
    """Set up completion for zsh."""
    path = Path("~/.zfunc/_interlock").expanduser()
    return _give(ZSH, path, "have these lines in ~/.zshrc, and open a new shell: fpath+=~/.zfunc; autoload -Uz "
                 "compinit; compinit", print_=print_, install=install)


def fish(*, print_: Print = False, install: Install = False) -> int:
    """Set up completion for fish."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return _give(FISH, home / "fish/completions/interlock.fish", "open a new shell", print_=print_, install=install)


def _give(script: str, path: Path, next_: str, *, print_: bool, install: bool) -> int:
    if print_ == install:
        raise usage("Say what is to become of the script." if not install else
                    "--print and --install exclude each other.", "Give --install, or --print.")
    if print_:
        result(script.rstrip("\n"))
        return ExitStatus.DONE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, script.encode())
    except OSError as error:
        raise Trouble("NotWritten", f"{path} cannot be written: {error.strerror}.",
                      "Put what --print gives where your shell looks.") from None
    result(str(path))
    say(f"now {next_}", "dim")
    return ExitStatus.DONE


def complete(words: list[str]) -> int:
    """Print the completions of the last word, one per line. Never fails, and prints nothing else."""
    # Whatever is wrong, Tab must not disturb the line that is being typed.
    with contextlib.suppress(Exception):
        for one in candidates(words or [""]):
            result(one)
    return ExitStatus.DONE


def candidates(words: list[str]) -> list[str]:
    """Return the completions of the last of these words, which follow `interlock`."""
    from interlock.cli.verbs import below, names

    *before, last = words
    plain = [word for word in before if not word.startswith("-")]
    if not plain:
        return _begin(last, ["--help", "--version"] if last.startswith("-") else names())
    verb = " ".join(plain[:2]) if plain[1:2] and plain[1] in below(plain[0]) else plain[0]
    if last.startswith("-"):
        return _begin(last, _options(verb.split(" ")))
    offered = list(below(plain[0])) if len(plain) == 1 else []
    if verb == "run" and len(plain) == 1:
        return _begin(last, _asked(_agents()))
    taken = TAKES.get(verb, ())
    if taken and len(plain) == len(verb.split(" ")) + (0 if verb not in _MANY else len(plain) - 1):
        ids = _asked(_ids(taken))
        offered += [*([LAST] if ids else []), *ids]
    return _begin(last, [one for one in offered if one not in before])


_MANY = frozenset({"approve", "deny", "cancel"})
"""Verbs that take several ids."""


def _begin(text: str, offered: list[str]) -> list[str]:
    """Return the values that begin with `text`; an id also by what follows its prefix, as the verbs accept it."""
    fitting = [one for one in offered if one.startswith(text)]
    return fitting or [one for one in offered if one.partition("_")[2].startswith(text)]


def _options(path: list[str]) -> list[str]:
    from interlock.cli.verbs import build

    app: App = build()
    for name in path:
        app = app[name]
    while not app.default_command and app.name and path[-1] in app:  # A group that completes the rest itself.
        app = app[path[-1]]
    found = [name for argument in app.assemble_argument_collection() for name in argument.names
             if name.startswith("--") and argument.parameter.show is not False]
    both = {name for name in found if name.startswith("--no-") and "--" + name.removeprefix("--no-") in found}
    return sorted({*found, "--help"} - both)


def _asked(asking: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Return the gateway's ids, or none: verbs are offered nevertheless."""
    try:
        return asyncio.run(asking)
    except (Trouble, TimeoutError):
        return []


async def _ids(taken: tuple[Ids, ...]) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(ASK_S), GatewayLink(Where()) as link:
        for kind in taken:
            rows = [one for one in await link.list(kind.path, Row, most=MOST) if kind.fits(one)]
            found += [str(one.get(kind.name, "")) for one in rows]
    return [one for one in found if one.isprintable() and one]


async def _agents() -> list[str]:
    async with asyncio.timeout(ASK_S), GatewayLink(Where()) as link:
        found = await link.read(LIST_NODES.at(), dict[str, list[dict[str, Any]]])
    return sorted({str(agent.get("agent_id")) for node in found.get("nodes", []) for agent in node.get("agents", [])})
