"""The outcome of all that was acknowledged to clients: read over REST and from the transcript files (R2 to R4)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from proof.recovery.random_kills import history_texts
from proof.workload.clients import TERMINAL, Clients
from proof.workload.ledger_fill import FILLED
from proof.workload.scripted_agent import file_of


class OutcomeTally(NamedTuple):
    """What was compared, and what is wrong."""

    commands: int
    states: Counter[str]
    votes: int
    frames: int
    entries: int
    files: int
    lost: list[str]
    doubled: list[str]
    broken: list[str]
    """Invariants of the design that do not hold."""
    audit: str
    audit_ok: bool
    orphans: int

    @property
    def passed(self) -> bool:
        """Nothing lost, nothing twice, every invariant held, the log verifies, nothing left running."""
        return not (self.lost or self.doubled or self.broken or self.orphans) and self.audit_ok and self.commands > 0

    def table(self) -> str:
        """Print form."""
        rows = [("acknowledged commands", self.commands),
                ("their states", ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))),
                ("acknowledged votes", self.votes), ("events that viewers were shown", self.frames),
                ("transcript entries", self.entries), ("files", self.files),
                ("acknowledged and lost", len(self.lost)), ("doubled", len(self.doubled)),
                ("invariants broken", len(self.broken)), ("processes left", self.orphans), ("audit", self.audit)]
        wrong = [f"  ! {sentence}" for sentence in [*self.lost, *self.doubled, *self.broken][:20]]
        return "\n".join([f"{name:<50} {value}" for name, value in rows] + wrong)


def tally_outcomes(clients: Clients, *, deltas: bool = True) -> OutcomeTally:
    """Compare; the stack is up before, and down after it. Without `deltas` the text that viewers were shown of blocks
    that were open may be gone: after a power cut (delivery.md)."""
    return _Tally(clients, deltas).run()


class _Tally:
    def __init__(self, clients: Clients, deltas: bool) -> None:
        self._clients = clients
        self._stack = clients.stack
        self._deltas = deltas
        self._lost: list[str] = []
        self._doubled: list[str] = []
        self._broken: list[str] = [f"a writer was answered {text}" for text in sorted(clients.refused)]
        self._texts: dict[str, list[str]] = {}
        self._entries = self._files = self._frames = 0

    def run(self) -> OutcomeTally:
        """Read and compare everything."""
        stack, names = self._stack, self._clients.commands()
        stack.stay()
        ran = Counter((stack.workspace / "ran.txt").read_text().split() if names else [])
        given = Counter(command_id for _, command_id, _ in names)
        self._doubled += [f"{name} ran {count} times" for name, count in ran.items() if count > 1]
        self._doubled += [f"command {id_} was given out {count} times" for id_, count in given.items() if count > 1]
        states = Counter(self._command(name, command_id, ran[name]) for name, command_id, _ in names)
        approvals = {one["id"]: one for one in self._items("/v1/approvals")}
        votes = self._votes(approvals, ran)
        self._audited([command_id for _, command_id, _ in names], approvals)
        sessions = sorted({session_id for _, _, session_id in names})
        for session_id in sessions:
            self._session(session_id)
        if stack.clustered:  # What several gateways keep is in no file.
            for session_id in sessions:
                self._transcript(session_id, [line.encode() for line in stack.transcript(session_id)])
        stack.down()
        if not stack.clustered:
            for session_id in sessions:
                path = stack.state / "agents" / "scripted" / "sessions" / f"{session_id}.jsonl"
                if path.exists():
                    self._transcript(session_id, path.read_bytes().split(b"\n"))
        audit_ok, records, says = stack.audit_ok()
        return OutcomeTally(len(names), states, votes, self._frames, self._entries, self._files, self._lost,
                            self._doubled, self._broken, f"{says} ({records} records)", audit_ok,
                            len(stack.leftovers()))

    def _command(self, name: str, command_id: str, ran: int) -> str:
        try:
            command = self._stack.get(f"/v1/commands/{command_id}")
        except KeyError:
            self._lost.append(f"command {command_id} of {name}")
            return "lost"
        if command["state"] not in TERMINAL:
            self._lost.append(f"command {command_id} never ended: {command['state']}")
        error = command.get("error")
        if error is None:
            return command["state"]
        # The cause of an agent's end distinguishes an intended death from another.
        why = f"{error['code']}: {error['message']}" if error["code"] == "AgentLost" else error["code"]
        return f"{command['state']} ({why})"

    def _votes(self, approvals: dict[str, Any], ran: Counter[str]) -> int:
        """Every acknowledged vote is there once; each run had a grant, and no denied call ran."""
        noted = [line.split() for line in self._clients.votes.lines()]
        for approval_id, decision in noted:
            kept = [vote["decision"] for vote in approvals.get(approval_id, {}).get("votes", [])]
            if kept != [decision]:
                self._lost.append(f"vote {decision} on {approval_id}: {kept} is kept")
        agreed: set[str] = set()
        for one in approvals.values():
            if [vote for vote in one.get("votes", []) if vote["decision"] == "grant"]:
                agreed.add(one["input"]["text"])
        self._broken += [f"{name} ran without a yes" for name in ran if name not in agreed]
        return len(noted)

    def _audited(self, command_ids: list[str], approvals: dict[str, Any]) -> None:
        """Each transition has exactly one record: what the status stream showed, and what each approval is."""
        recorded: dict[str, list[str]] = defaultdict(list)
        for line in self._stack.lines("/v1/audit/export"):
            record: dict[str, Any] = json.loads(line).get("record", {}) if FILLED not in line else {}
            if record.get("meta") and "to" in record["meta"]:
                recorded[record.get("approval_id") or record.get("command_id") or ""].append(record["meta"]["to"])
        for command_id in command_ids:
            shown: list[str] = []
            for event in self._stack.pages(f"/v1/commands/{command_id}/status", "events"):
                if event.get("state") and event["state"] != (shown[-1] if shown else None):
                    shown.append(event["state"])
            if shown != recorded[command_id]:
                self._broken.append(f"command {command_id} went {shown}, and the log has {recorded[command_id]}")
        for approval_id, approval in approvals.items():
            steps = recorded[approval_id]
            if not steps or steps[-1] != approval["state"] or len(set(steps)) != len(steps):
                self._broken.append(f"approval {approval_id} is {approval['state']}, and the log has {steps}")

    def _session(self, session_id: str) -> None:
        events = self._stack.pages(f"/v1/sessions/{session_id}/frames", "events", view="raw")
        if pieces := [event for event in events if "n" not in event]:
            self._broken.append(f"session {session_id} shows text of an open block after its turns: {pieces[0]}")
            events = [event for event in events if "n" in event]
        if [event["n"] for event in events] != list(range(1, len(events) + 1)):
            self._lost.append(f"session {session_id}: its numbers have a gap or a repetition")
        of_runner = [event for event in events if event["kind"] in ("C", "refused") and "seq" in event.get("frame", {})]
        seqs = [event["frame"]["seq"] for event in of_runner]
        if seqs != list(range(1, len(seqs) + 1)):
            self._lost.append(f"session {session_id}: frames {[s for s, c in Counter(seqs).items() if c > 1]} twice, "
                              f"{sorted(set(range(1, max(seqs) + 1)) - set(seqs))} missing")
        self._texts[session_id] = [event["frame"]["payload"]["text"] for event in events if event["kind"] == "C"
                                   and event.get("frame", {}).get("type") == "agent.text.done"]
        self._shown(session_id, events)
        self._turns(session_id, events)
        self._sent_files(session_id, events)
        if self._deltas:
            stored = history_texts(events)
            for block, seen in self._clients.viewers.texts(session_id).items():
                if not stored.get(block, "").startswith(seen):
                    self._lost.append(f"session {session_id} block {block}: a viewer saw {seen[-60:]!r}, history has "
                                      f"{stored.get(block, '')[-60:]!r}")

    def _shown(self, session_id: str, events: list[dict[str, Any]]) -> None:
        ids = [event.get("frame", {}).get("message_id", "-") for event in events]
        seen = Counter[str]()
        for line in self._clients.shown.lines():
            of, n, message_id = line.split()
            if of == session_id:
                seen[n] += 1
                if int(n) > len(ids) or ids[int(n) - 1] != message_id:
                    self._lost.append(f"session {session_id}: a viewer was shown {message_id} as event {n}")
        self._doubled += [f"session {session_id}: a viewer was shown event {n} {count} times"
                          for n, count in seen.items() if count > 1]
        self._frames += len(seen)

    def _turns(self, session_id: str, events: list[dict[str, Any]]) -> None:
        started: list[str] = []
        ended: list[str] = []
        prompts: Counter[str] = Counter()
        for event in events:
            frame = event.get("frame", {})
            if frame.get("type") == "session.turn.start":
                started.append(frame["payload"]["turn_id"])
                prompts[frame["metadata"].get("prompt_id")] += 1
            elif frame.get("type") == "session.turn.end":
                ended.append(frame["payload"]["turn_id"])
        if sorted(started) != sorted(ended):
            self._broken.append(f"session {session_id}: turns {started} began, and {ended} ended")
        self._doubled += [f"prompt {prompt} started {count} times" for prompt, count in prompts.items() if count > 1]

    def _sent_files(self, session_id: str, events: list[dict[str, Any]]) -> None:
        sent = {event["frame"]["payload"]["transfer_id"]: event["frame"]["payload"] for event in events
                if event["kind"] == "C" and event.get("frame", {}).get("type") == "agent.file.transfer"}
        for transfer_id, payload in sent.items():
            answer = self._stack.ask(f"/v1/sessions/{session_id}/files/{transfer_id}")
            wanted = file_of(payload["name"].removesuffix(".txt"))
            if answer.status_code != 200 or hashlib.sha256(answer.content).digest() != hashlib.sha256(wanted).digest():
                self._lost.append(f"session {session_id}: the file {transfer_id} is {answer.status_code}")
            self._files += 1

    def _transcript(self, session_id: str, lines: list[bytes]) -> None:
        """It has exactly one entry for each started prompt and each sent text, each below a parent."""
        # A torn line that was not synced may be damaged; its entry was written again after it.
        header, *entries = [read for line in lines if (read := _read(line)) is not None]
        kept = set(_texts(entries))
        self._lost += [f"the entry of {text[:40]!r} in {session_id}" for text in self._texts[session_id]
                       if not any(text.strip() in one for one in kept)]
        ids = [entry["id"] for entry in entries]
        self._doubled += [f"entry {id_} of {session_id} stands {count} times"
                          for id_, count in Counter(ids).items() if count > 1]
        known: set[str] = set()
        for entry in entries:
            if entry.get("parentId") is not None and entry["parentId"] not in known:
                self._lost.append(f"the parent {entry['parentId']} of an entry of {session_id}")
            known.add(entry["id"])
        self._entries += len(entries)
        if header.get("type") != "session":
            self._lost.append(f"the header of {session_id}")

    def _items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = self._stack.get(path, limit=500, **({"cursor": cursor} if cursor else {}))
            found += page["items"]
            cursor = page["next_cursor"]
            if not cursor:
                return found


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        read: Any = json.loads(line.decode()) if line else None
    except ValueError:
        return None
    return cast("dict[str, Any]", read) if isinstance(read, dict) else None


def _texts(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        whole = cast("dict[str, Any] | list[Any]", value)
        for part in whole.values() if isinstance(whole, dict) else whole:
            yield from _texts(part)
