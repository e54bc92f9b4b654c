"""Real agents that never ask, in a box: held at each program, and no change lands without a grant (H-16, H-17).

opencode, codex-acp and pi, each in the mode that lets it do everything, through a gateway and a runner of their own,
against Interlock's model on loopback. Each shell command is decided over REST: a denial leaves no file. Changes are
staged: one file lands, another one is discarded. An agent that is not installed is skipped with the reason.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from interlock.box.host import survey
from interlock.model_stand_in import running_model_server
from interlock.ports.agent import AgentSpec
from proof.agents.installed_agents import OPEN_MODES, Absent, configured, section
from proof.processes.stack import Stack

AGENTS = ("opencode", "codex-acp", "pi")
TURN_S = 90.0
NAME_CHARS = 60
ASKING = frozenset({"OPENCODE_PERMISSION", "INITIAL_AGENT_MODE"})
"""Variables by which an agent's user makes it ask; here it is not to."""
RULE = '\n[[policy.rules]]\nname = "boxed"\neffect = "allow"\ndoor = "command"\nbox = ["programs", "staged"]\n'


class Step(NamedTuple):
    """One thing that must be so, and what was seen."""

    what: str
    held: bool
    seen: str


def boxed(name: str, home: Path, workspace: Path, url: str) -> tuple[AgentSpec, list[str]]:
    """The agent as one that asks for nothing, and what it needs between turns. Raises Absent."""
    spec = configured(name, home, workspace, url)
    env = {key: value for key, value in spec.env.items() if key not in ASKING}
    mode = "" if name == "pi" else OPEN_MODES[name]  # pi-acp has no modes.
    return msgspec.structs.replace(spec, env=env, asks=False, mode=mode), between_turns(name, spec.command)


def between_turns(name: str, command: str) -> list[str]:
    """What an agent starts before its first turn: npm's packages start the program proper."""
    if name == "pi":
        return ["pi --mode rpc", "pi --version"]
    if name != "codex-acp":
        return []
    modules = next(one for one in Path(command).resolve().parents if one.name == "node_modules")
    return ["node", *(f"{one} app-server" for one in modules.glob("@openai/codex-*/vendor/*/bin/codex"))]


class Boxed:
    """One agent in one stack."""

    def __init__(self, name: str, stack: Stack) -> None:
        self._name, self._stack = name, stack
        self._session = ""
        self._keys = 0
        self.steps: list[Step] = []
        self.programs = 0

    def run(self) -> None:
        """Go through all of it."""
        workspace = self._stack.workspace
        (workspace / "edited.txt").write_text("before\n")
        asked = self._turn("[[tool:touch refused.txt]]", program="deny", landing="grant")
        self._step("a no to a shell command: the file is not there",
                   bool(asked) and not (workspace / "refused.txt").exists() and not self._staged(), _names(asked))

        asked = self._turn("[[tool:touch made.txt]]", program="grant", landing="deny")
        self._step("a yes: it ran, and what it wrote is staged alone",
                   "land_changes" in asked and not (workspace / "made.txt").exists() and "made.txt" in self._staged(),
                   ", ".join(self._staged()))

        change = {"path": str(workspace / "edited.txt"), "old": "before", "new": "after"}
        # This model is offered no tool of codex's for editing, so codex edits through its shell.
        deed = "[[tool:sed -i s/before/after/ edited.txt]]" if self._name == "codex-acp" else (
            f"[[do:edit {json.dumps(change)}]]")
        asked = self._turn(deed, program="grant", landing="edited.txt")
        landed = (workspace / "edited.txt").read_text()
        self._step("of two staged files, the one that was chosen landed",
                   landed == "after\n" and self._staged() == ["made.txt"], f"{landed!r}, staged: {self._staged()}")

        self._stack.post(f"/v1/sessions/{self._session}/discard", {"files": ["made.txt"]}, self._key())
        end = time.monotonic() + TURN_S
        while self._staged() and time.monotonic() < end:
            time.sleep(0.05)
        self._step("the other one was thrown away", not self._staged() and not (workspace / "made.txt").exists(),
                   ", ".join(sorted(one.name for one in workspace.iterdir() if one.is_file())))

        asked = self._turn("[[tool:cat edited.txt; ls made.txt; touch last.txt]]", program="grant", landing="grant")
        self._step("the session goes on afterwards", (workspace / "last.txt").exists(), _names(asked))

    def _step(self, what: str, held: bool, seen: str) -> None:
        self.steps.append(Step(what, held, seen))

    def _staged(self) -> list[str]:
        found = self._stack.get(f"/v1/sessions/{self._session}/changes")
        return [one["path"] for one in found["files"]]

    def _turn(self, deed: str, *, program: str, landing: str) -> list[str]:
        """Send a prompt, answer each question, and return what was asked: `landing` is a vote, or a file that lands."""
        target = {"session_id": self._session} if self._session else {
            "agent_id": self._name, "workspace": str(self._stack.workspace)}
        answer = self._stack.post("/v1/commands", {"type": "execute", "target": target, "payload": {"messages": [
            {"role": "user", "content": [{"contentType": "text", "value": f"Please: {deed}"}]}]}}, self._key())
        if answer.status_code != 202:
            raise AssertionError(answer.text)
        command = answer.json()
        self._session = command["target"]["session_id"]
        asked: dict[str, str] = {}
        end = time.monotonic() + TURN_S
        while time.monotonic() < end:
            now = self._stack.get(f"/v1/commands/{command['id']}")
            for one in self._stack.get("/v1/approvals", state="pending")["items"]:
                if one["id"] not in asked:
                    asked[one["id"]] = one["title"] if one["tool_name"] == "program" else one["tool_name"]
                    self._vote(one, landing if one["tool_name"] == "land_changes" else program)
            if now.get("ended_at"):
                if now["state"] != "succeeded":
                    self._step(f"{deed} ends well", False, json.dumps(now.get("error"))[:200])
                self.programs += sum(one != "land_changes" for one in asked.values())
                return list(asked.values())
            time.sleep(0.05)
        raise AssertionError(f"{self._name} did not end its turn\n{self._stack.log('runner')}")

    def _vote(self, approval: dict[str, Any], vote: str) -> None:
        if vote in ("grant", "deny"):
            self._stack.post(f"/v1/approvals/{approval['id']}/grants", {"decision": vote}, self._key())
        else:
            answer = self._stack.post(f"/v1/sessions/{self._session}/land", {"files": [vote]}, self._key())
            if answer.status_code != 200:
                self._step(f"{vote} is staged", False, answer.text[:200])
                self._stack.post(f"/v1/approvals/{approval['id']}/grants", {"decision": "deny"}, self._key())

    def _key(self) -> str:
        self._keys += 1
        return f"proof-boxed-{self._name}-{self._keys}"


def _names(asked: Sequence[str]) -> str:
    return "asked about: " + (", ".join(dict.fromkeys(
        one if len(one) < NAME_CHARS else f"{one[:NAME_CHARS]}…" for one in asked)) or "nothing")


def attempt_agent(name: str) -> Boxed:
    """Try one agent. Raises Absent."""
    with tempfile.TemporaryDirectory(prefix="interlock-boxed-") as directory, running_model_server() as model:
        place = Path(directory).resolve()
        home = place / "home"
        home.mkdir()
        spec, entries = boxed(name, home, place / "workspace", model.url)
        box = f'[agents.{name}.box]\nhold = "programs"\nchanges = "staged"\nbetween_turns = {json.dumps(entries)}\n'
        stack = Stack(place, f"{section(name, spec)}{box}{RULE}", on_file=True)
        try:
            stack.up()
            agent = Boxed(name, stack)
            agent.run()
        finally:
            stack.down()
        left = stack.leftovers()
        agent.steps.append(Step("no process is left", not left, str(len(left))))
        return agent


def run(seed: int, rounds: int | None, agents: Sequence[str] = ()) -> bool:
    """Try each agent and print what was seen; True if all held for each that is here."""
    host = survey()
    if host.no_overlay or host.programs:
        print(f"not tried: {host.no_overlay or host.programs}")
        return True
    skipped = failed = 0
    for name in agents or AGENTS:
        began = time.monotonic()
        try:
            agent = attempt_agent(name)
        except Absent as absent:
            print(f"{name}: skipped, {absent}", flush=True)
            skipped += 1
            continue
        print(f"{name}, {time.monotonic() - began:.0f} s, {agent.programs} programs held", flush=True)
        for step in agent.steps:
            print(f"  {'held  ' if step.held else 'FAILED'} {step.what} ({step.seen})", flush=True)
            failed += not step.held
    count = len(agents or AGENTS) - skipped
    passed = not failed and count > 0
    print(f"{count} agents tried, {skipped} skipped, {failed} steps failed: {'passed' if passed else 'FAILED'}")
    return passed
