"""Writes the table of checked agents in `docs/how-to/agents.md` from `spec/checked-agents.json`.

`python docs/how-to/checked_agents.py` writes the page; `--run` first checks every known agent whose program is on PATH
(or in the directories of INTERLOCK_TEST_LAB/bin), as `interlock agents check` does, and keeps what it saw with version
and date. An agent that is not there keeps its last record. A test asserts that the page is what this prints.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from interlock.agents.evidence import READ_COMMAND, Evidence, ToolEvidence, kept
from interlock.cli.agents.known_agents import KNOWN, KnownAgent
from interlock.ports.agent import AgentSpec
from interlock.probe.check import check
from interlock.probe.model_endpoint import NOT_POINTED

HERE = Path(__file__).parent
PAGE = HERE / "agents.md"
DATA = HERE.parent.parent / "spec" / "checked-agents.json"
BEGIN, END = "<!-- checked: begin -->", "<!-- checked: end -->"
NOTE = "<!-- Written by docs/how-to/checked_agents.py from spec/checked-agents.json. -->"
COLUMNS = ("shell", READ_COMMAND, "write", "edit", "fetch", "MCP tool", "sub-agent")
WORDS: Mapping[str, str] = {"asked": "asked", "ran unasked": "**unasked**", "ran after a no": "**after a no**",
                            "refused": "refuses", "did not end": "hangs", "not offered": "–", "not tried": "?"}
EXPLAINED = ("“asked” means: it asked before, and a no held. “refuses” means: it did not do it, and did not ask. “–” "
             "means: it offered its model no such tool when the model was to use it, as it is set up here. “?” means: "
             "not tried. “described” means: its question does not contain all of what the call does.")


def records() -> dict[str, Evidence]:
    """What was seen, by agent."""
    return msgspec.json.decode(DATA.read_bytes(), type=dict[str, Evidence])


def page(text: str, seen: Mapping[str, Evidence]) -> str:
    """The page with its table written again. Raises ValueError if the marks are not there."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no {BEGIN} and {END}")
    return "\n".join([f"{head}{BEGIN}", NOTE, *table(seen), f"{END}{tail}"])


def table(seen: Mapping[str, Evidence]) -> Iterator[str]:
    """The table, and what is said below it."""
    yield "| agent | is held | " + " | ".join(COLUMNS) + " | a question shows | else |"
    yield "|---" * (len(COLUMNS) + 4) + "|"
    for known in KNOWN:
        if known.agent_id in seen:
            yield _row(seen[known.agent_id])
    dates = sorted({one.checked[:10] for one in seen.values()})
    yield ""
    yield f"Checked on {' and '.join(dates)}. {EXPLAINED}"
    yield f"Not checked, since each needs an account: {', '.join(sorted(NOT_POINTED))}."


def _row(one: Evidence) -> str:
    by_tool = {seen.tool: seen for seen in one.tools}
    shown = {seen.shown for seen in one.tools if seen.shown}
    words = [WORDS[by_tool[tool].state] if tool in by_tool else "?" for tool in COLUMNS]
    inputs = " and ".join(sorted(word for word in shown)) or "–"
    return f"| {one.agent_id} {one.version or ''} | {one.verdict} | {' | '.join(words)} | {inputs} | {_else(one)} |"


def _else(one: Evidence) -> str:
    """What the check's sentences say beyond the columns."""
    first, _, rest = one.because.partition(". ")
    if one.verdict != "asks":
        return one.because
    extra = [_named(seen) for seen in one.tools if seen.tool in ("slash command", "mode change")]
    return " ".join(part for part in (rest, *filter(None, extra)) if part) or ("" if first else "–")


def _named(seen: ToolEvidence) -> str:
    return f"The mode {seen.how} asks." if seen.tool == "mode change" and seen.state == "asked" else ""


def search_path() -> str:
    """Where programs are looked for."""
    lab = os.environ.get("INTERLOCK_TEST_LAB")
    return (f"{lab}/bin{os.pathsep}" if lab else "") + os.environ.get("PATH", os.defpath)


def spec_of(known: KnownAgent) -> AgentSpec | None:
    """The agent as `interlock agents` prints it; None if it is not here."""
    more: dict[str, Any] = {"mode": known.mode} if known.mode else {}
    env = {"PATH": search_path(), **known.env}
    if known.adapter == "claude":
        here = importlib.util.find_spec("claude_agent_sdk") is not None
        return AgentSpec(adapter="claude", env=env) if here else None
    command = shutil.which(known.program, path=search_path())
    if command is None or known.program in NOT_POINTED:
        return None
    return AgentSpec(adapter=known.adapter, command=command, args=list(known.args), env=env, **more)


def run_checks(names: list[str]) -> dict[str, Evidence]:
    """Check what is here, one after the other; the records of the others stay."""
    found = records() if DATA.exists() else {}
    for known in KNOWN:
        spec = spec_of(known) if known.adapter != "exec" and (not names or known.agent_id in names) else None
        if spec is None:
            continue
        one = asyncio.run(check(known.agent_id, spec, os.environ, datetime.now(UTC)))
        # The digest is of this machine's files, and the seconds are of its load. A check that was cut short replaces
        # no fuller record.
        before, made = found.get(known.agent_id), msgspec.structs.replace(one, digest="", seconds=0.0)
        found[known.agent_id] = kept(before, made)
        stays = f" The fuller record of {before.checked} stays." if before and found[known.agent_id] is before else ""
        print(f"{known.agent_id}: {one.seconds:.1f} s, {one.verdict}. {one.because}{stays}", flush=True)
        DATA.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return found


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="*", metavar="AGENT", help="check these agents first; all without a name")
    names = parser.parse_args().run
    seen = records() if names is None else run_checks(names)
    PAGE.write_text(page(PAGE.read_text("utf-8"), seen), "utf-8")


if __name__ == "__main__":
    main()
