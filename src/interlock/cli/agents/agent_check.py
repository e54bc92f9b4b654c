"""`interlock agents check|add`: test whether an agent asks before its tools run, instead of trusting its claim
(H-10)."""

from __future__ import annotations

import asyncio
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from cyclopts import Parameter

from interlock import config
from interlock.agents import evidence
from interlock.agents.credentials import not_passed_on
from interlock.agents.held import holding_of
from interlock.agents.registry import SHELL
from interlock.cli.agents.known_agents import KNOWN, KnownAgent, snippet
from interlock.cli.config.loaded_config import load_config
from interlock.cli.config.place import NOWHERE, Here, Where, writable, write_private
from interlock.cli.display.columns import Layout
from interlock.cli.display.progress import agreed
from interlock.cli.display.terminal import is_terminal, one_line, print_json, print_sentence, print_table, result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.options import Json
from interlock.cli.verb_error import Trouble, usage
from interlock.ports.agent import AgentSpec
from interlock.protocol.hold import INCONCLUSIVE, MEANINGS, READS_UNASKED

TRIED = Layout(text=("TOOL",))


def check(name: str, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Start an agent in a scratch directory against a model of Interlock's own, have it use its tools, and see whether
    it asks before each. Nothing leaves this machine, and no login is needed. The result is kept in the state directory.

    Parameters
    ----------
    name
        The agent's name in the config.
    """
    spec = _configured(name, where)
    found = _check(name, spec, where)
    _show(spec, found, json=json)
    return ExitStatus.DONE


def add(name: str, /, *,
        yes: Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask for confirmation.")] = False,
        json: Json = False, where: Here = NOWHERE) -> int:
    """Write the lines that set up a known agent into the config, and check it.

    Parameters
    ----------
    name
        The agent, as `interlock agents` lists it.
    """
    known = _known(name)
    change = _change(known, where)
    if not json:
        result(f"# {change.file}\n\n{snippet(known)}", end="")
    if not yes and not _agreed():
        say("nothing was changed", "dim")
        return ExitStatus.DONE
    write_private(change.file, change.text.encode())
    spec = _configured(name, where)
    found = _check(name, spec, where)
    _show(spec, found, json=json)
    if not json:
        if left := not_passed_on(spec, os.environ):
            say(f"{', '.join(left)} is set here, not passed on; if {known.agent_id} needs it, write in "
                f"[agents.{known.agent_id}]: env_pass = {msgspec.json.encode(left).decode()}", "bold", "not passed on")
        say("a gateway and runner that run read it with: interlock config reload", "dim")
    return ExitStatus.DONE


class _Change(NamedTuple):
    """The config file, and its new content."""

    file: Path
    text: str


def _configured(name: str, where: Where) -> AgentSpec:
    agents = load_config(where).agents
    spec = agents.get(name)
    if spec is None and name in ("shell", "builtin"):
        raise usage(f"Agent {name} is Interlock's own: its asking is checked by Interlock's tests.",
                    "Check an agent of [agents] in the config.")
    if spec is None:
        known = ", ".join(sorted(agents)) or "none"
        raise Trouble("NotFound", f"The config has no agent {one_line(name)!r}; it has: {known}.",
                      f"Set it up with: interlock agents add {one_line(name)}" if _is_known(name) else
                      "Write its table [agents.ID] into the config; docs/how-to/agents.md explains it.")
    if spec == SHELL or spec.adapter == "builtin":
        raise usage(f"Agent {name} is Interlock's own: its asking is checked by Interlock's tests.")
    path = spec.env.get("PATH") or os.environ.get("PATH") or os.defpath
    if spec.command and shutil.which(spec.command, path=path) is None:
        raise usage(f"The program {spec.command!r} of agent {name} is not on PATH.",
                    f"Install it, or correct `command` in [agents.{name}].")
    return spec


def _check(name: str, spec: AgentSpec, where: Where) -> evidence.Evidence:
    state = writable(where.made_directory())
    from interlock.app.hidden_paths import boxing_of

    # Only this verb imports the model stand-in.
    from interlock.probe.check import StandInUnavailable
    from interlock.probe.check import check as run_check

    say(f"checking {name}; this takes some seconds", "dim")
    try:
        found = asyncio.run(run_check(name, spec, os.environ, datetime.now(UTC), boxing_of(state)))
    except StandInUnavailable as error:
        raise Trouble("Unavailable", str(error), "Nothing was checked, and the last record was kept.") from None
    records = evidence.read(state)
    before = records.get(name)
    write_private(state / evidence.FILE_NAME, evidence.with_record(records, found))
    if before is not None and evidence.kept(before, found) is before:
        say(f"this check was cut short; the fuller record of {before.checked} stays: {before.verdict}", "dim")
    return found


def _show(spec: AgentSpec, found: evidence.Evidence, *, json: bool) -> None:
    if json:
        print_json(msgspec.json.encode(found))
        return
    if found.tools:
        print_table([[f"{one.tool} {one.how}".strip(), one.state, _shown(one)] for one in found.tools],
                    ("TOOL", "WHAT IT DID", "INPUT SHOWN"), TRIED)
    version = f" {one_line(found.version)}" if found.version else ""
    mode = f", opened in mode {one_line(found.mode)}" if found.mode else ""
    holding = holding_of(spec, found, found.digest)
    say(f"{found.agent_id}{version}{mode} · {found.seconds:.0f} s", "dim")
    differs = holding.held != found.verdict
    believed = f" Its table says that it asks, and is believed: {INCONCLUSIVE}." if differs else ""
    but = f", {READS_UNASKED}" if holding.why == READS_UNASKED else ""
    print_sentence(f"{holding.held}: {MEANINGS[holding.held]}{but}. {one_line(found.because, 2_000)}{believed}")


def _shown(one: evidence.ToolEvidence) -> str:
    return {"input": "yes", "described": "described", "": "-"}[one.shown]


def _is_known(name: str) -> bool:
    return any(one.agent_id == name for one in KNOWN)


def _known(name: str) -> KnownAgent:
    known = next((one for one in KNOWN if one.agent_id == name), None)
    if known is None:
        names = ", ".join(one.agent_id for one in KNOWN)
        raise Trouble("NotFound", f"Interlock does not know an agent {one_line(name)!r}; it knows: {names}.",
                      "Write its table into the config yourself, then: interlock agents check NAME")
    if shutil.which(known.program) is None:
        raise usage(f"The program {known.program!r} of agent {name} is not on PATH.", "Install it first.")
    return known


def _change(known: KnownAgent, where: Where) -> _Change:
    """Return the config with the agent's table added at its end. Raises Trouble if the file or the result is not
    valid."""
    file = where.directory() / config.FILE_NAME
    before = file.read_text("utf-8-sig") if file.exists() else ""
    if known.agent_id in load_config(where).agents:
        raise Trouble("Conflict", f"The config has an agent {known.agent_id} already; it was not changed.",
                      f"Check it with: interlock agents check {known.agent_id}")
    lead = before if not before or before.endswith("\n") else f"{before}\n"
    after = (f"{lead}\n" if lead else "") + snippet(known)
    try:
        config.parse(after, str(file))
    except config.ConfigError as error:
        raise usage(error.sentences[0], "Nothing was changed. See: interlock config check") from None
    return _Change(file, after)


def _agreed() -> bool:
    import sys

    if not is_terminal(sys.stdin):
        raise usage("Writing the config needs a yes.", "Use --yes.")
    say("Write these lines into the config?")
    return agreed()
