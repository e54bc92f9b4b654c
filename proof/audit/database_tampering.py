"""tamper-database: edits by SQL between the question and the release; none changes what runs unnoticed (H-5).

On SQLite, or with `--store postgresql` on PostgreSQL. Each trial takes a copy of a ledger in which everything waits (a
held command, a held tool call, a denied one, a prompt that its runner has not got, remembered rules, keys, a suspended
tenant), edits one value of one row, and releases all of it: links, votes, keys, rules. Half of the edits come while the
gateway is down, half while it works. `--break PART` disables a part of the comparison; the proof must notice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import structlog

from interlock.backends.memory.clock import ManualClock
from interlock.engine.bridge import seals
from interlock.engine.bridge.link import mismatch
from interlock.engine.lanes import lane_reader
from interlock.engine.lanes.rows import RowAudit
from proof.audit.database_copies import Editing, PostgresStore, Refused, SqliteStore, Store
from proof.audit.database_gateway import FORGED, PROBES, Base, Gateway, Outcome, digest, make_base, release, verified
from proof.json_value import Json

FULL_ROUNDS = 500
STORES = ("sqlite", "postgresql")
PARTS = ("rows", "seals", "binding")
"""rows: keys, rules, tenants, runners · seals: control frames, session state · binding: commands, approvals, votes"""
TABLES = ("command", "approval", "remembered_rule", "api_key", "tenant", "runner", "control", "session", "audit")
BODIES = {"session": "machine"}
WORDS = ("owner", "admin", "granted", "queued", "pending", "allow", "deny", "asks", "never", "rm -rf /", "/etc", "*",
         "default", "t2", "user:owner", "tool", "free", "", "2099-01-01T00:00:00Z")
NUMBERS = (0, 1, 2, 9, 10**15)
EDITS = ("aimed", "aimed", "leaf", "leaf", "leaf", "column", "column", "delete", "insert", "swap")
_FORGED_VOTE = {"by": "user:mallory", "at": "", "decision": "grant", "method": "acl", "role": "admin"}
_RM = {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "rm -rf /"}]}]}
_YES = {"interaction_id": "x-i1", "decision": "allow", "by": "user:eve"}
AIMED: dict[str, tuple[tuple[str, Any], ...]] = {
    "command": (("command/payload", _RM), ("command/state", "queued"), ("origin", "flush"),
                ("command/actor", {"type": "user", "id": "cara"}), ("command/target/workspace", "/etc")),
    "approval": (("approval/required", 1), ("approval/votes", [_FORGED_VOTE, _FORGED_VOTE]), ("approval/required", 0),
                 ("approval/state", "granted"), ("approval/input", {"command": "rm -rf /"}),
                 ("approval/title", "harmless"), ("approval/deny_threshold", 9)),
    "remembered_rule": (("rule/rule", {"name": "x", "effect": "allow", "until": "2099-01-01T00:00:00Z"}),
                        ("rule/rule/effect", "allow"), ("rule/rule/agent", "*"), ("rule/rule/tool", "*")),
    "api_key": (("role", "owner"), ("revoked", False), ("expires_ms", 10**15), ("tenant_id", "default"),
                ("principal", {"type": "user", "id": "owner"})),
    "tenant": (("suspended", False), ("tenant_id", "t3")),
    "runner": (("revoked", True), ("token_sha256", "0" * 64)),
    "control": (("payload/text", "rm -rf /"), ("payload/decision", "allow"), ("payload/workspace", "/etc"),
                ("type", "control.turn.resume")),
    "session": (("permission", "never"), ("workspace", "/etc"), ("held_answers", [_YES]), ("agent_id", "free"),
                ("trusted_kinds", True)),
    "audit": (("meta/digest", "0" * 64), ("meta/terms/required", 1), ("action", "approve"), ("meta/to", "granted")),
}
"""Edits of an attacker who knows the tables: a path into the body, and a value."""
TRIAL_S = 30.0


class Edit(NamedTuple):
    """One edit by SQL."""

    table: str
    column: str
    what: str


class Counts(NamedTuple):
    """The outcome of the edits of one column."""

    edits: int = 0
    same: int = 0
    reported: int = 0
    verified: int = 0
    """Found by `audit verify --database` alone."""
    wrong: int = 0


def run(seed: int, rounds: int | None, broken: str | None = None, store: str = STORES[0]) -> bool:
    """Make the edits, print the table."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as folder:
        found, wrong = asyncio.run(trials(_store(store, Path(folder)), seed, rounds or FULL_ROUNDS, broken))
    print(table(found))
    for line in wrong[:20]:
        print(f"FAILED: {line}")
    print(f"{sum(one.edits for one in found.values())} edits, {store}, seed {seed}: "
          f"{'none changed what runs unnoticed' if not wrong else f'{len(wrong)} did'}")
    return not wrong


def _store(name: str, folder: Path) -> Store:
    if name == "sqlite":
        return SqliteStore(folder)
    from proof.processes.cluster_servers import postgres

    return PostgresStore(postgres().url, f"tampered_{os.getpid()}")


async def trials(store: Store, seed: int, rounds: int, broken: str | None = None, tables: Sequence[str] = TABLES
                 ) -> tuple[dict[str, Counts], list[str]]:
    """Try `rounds` edits. Returns the counts by table and column, and a line for each edit that went unnoticed."""
    dice = random.Random(seed)
    found: dict[str, Counts] = {}
    wrong: list[str] = []
    # A lane whose row cannot be read is counted by what came of it.
    asyncio.get_running_loop().set_exception_handler(_counted_by_its_outcome)
    base = await make_base(store)
    as_it_is = {live: (await _trial(base, store, None, live=live))[0] for live in (True, False)}
    with out_of_action(broken):
        for number in range(rounds):
            live, place = dice.random() < 0.5, tables[number % len(tables)]
            edit = _Editor(dice, place)
            outcome, reported, whole = await _trial(base, store, edit, live=live)
            more, less = _compare(as_it_is[live], outcome)
            made = edit.made or Edit(place, "-", "none")
            name = f"{made.table}.{made.column}"
            counts = found.get(name, Counts())
            bad = bool(more) or (less and not reported and whole)
            if bad:
                wrong.append(f"{made.table}.{made.column} {made.what} ({'up' if live else 'down'}): "
                             f"{more or 'less ran, and nothing was reported'}")
            found[name] = Counts(
                counts.edits + 1, counts.same + (not more and not less and not reported and whole),
                counts.reported + reported, counts.verified + (not reported and not whole), counts.wrong + bad)
    return found, wrong


def _counted_by_its_outcome(_loop: asyncio.AbstractEventLoop, _context: dict[str, Any]) -> None:
    pass


def table(found: dict[str, Counts]) -> str:
    """Lay out the counts."""
    lines = [f"{'table.column':<34}{'edits':>7}{'no effect':>11}{'refused':>9}{'verify':>8}{'unnoticed':>11}"]
    lines += [f"{name:<34}{one.edits:>7}{one.same:>11}{one.reported:>9}{one.verified:>8}{one.wrong:>11}"
              for name, one in sorted(found.items())]
    return "\n".join(lines)


def _compare(before: Outcome, after: Outcome) -> tuple[list[str], bool]:
    """Report runs, and permitted runs, that are new after the edit, and whether any is missing."""
    more = [f"ran {one[37:160]}" for one in sorted(after.ran - before.ran)]
    more += [f"{name} is {who}" for name, who in after.keys.items() if who is not None and who != before.keys[name]]
    # After a denial was changed or removed, each call is asked about: without a grant it does not run.
    more += [f"{probe}: {says}" for probe, says in after.policy.items() if says == "allow" != before.policy[probe]]
    return more, bool(before.ran - after.ran) or before.keys != after.keys or before.policy != after.policy


async def _trial(base: Base, store: Store, edit: _Editor | None, *, live: bool) -> tuple[Outcome, bool, bool]:
    await store.copy()
    if edit is not None and not live:
        await edit.make(store)
    fault = False
    try:
        async with asyncio.timeout(TRIAL_S):
            ledger = await store.open_trial(ManualClock())
            gateway = Gateway(ledger, random.Random(base.hashes[0]).randbytes)
            try:
                await gateway.meet()
                await gateway.engine.start()
                if live:
                    for session_id in base.sessions:
                        await gateway.attach(session_id)
                    gateway.wire.sent.clear()
                    if edit is not None:
                        await edit.make(store)
                outcome, reported = await release(gateway, base)
            finally:
                await gateway.stop()
    except TimeoutError:
        raise
    except Exception:  # noqa: BLE001 - the gateway does not start, or reports that the database is damaged
        outcome = Outcome(frozenset(), dict.fromkeys(base.secrets),
                          {f"{agent} {tool}": "deny" for agent, tool in PROBES})
        reported, fault = True, True
    # In a thread: `audit verify` runs a loop of its own on PostgreSQL.
    return outcome, reported or fault, await asyncio.to_thread(verified, base, store.trial_rows())


class _Editor:
    """Makes one random edit in a table."""

    def __init__(self, dice: random.Random, place: str) -> None:
        self._dice = dice
        self._table = place
        self.made: Edit | None = None

    async def make(self, store: Store) -> None:
        async with store.editing() as editing:
            await self._edit(editing)

    async def _edit(self, editing: Editing) -> None:
        dice, place = self._dice, self._table
        keys = await editing.keys(place)
        where = " AND ".join(f"{one} = ?" for one in keys)
        ids = await editing.rows(f"SELECT {', '.join(keys)} FROM {place} ORDER BY 1")
        row, kind = dice.choice(ids), dice.choice(EDITS)
        body = BODIES.get(place, "body")
        if kind == "delete":
            await editing.change(f"DELETE FROM {place} WHERE {where}", *row)
            self.made = Edit(place, "(row)", "deleted")
            return
        if kind == "insert":
            await self._insert(editing, where, row)
            return
        if kind == "column":
            name = dice.choice([one for one in await editing.columns(place) if one != body])
            [(was,)] = await editing.rows(f"SELECT {name} FROM {place} WHERE {where}", *row)
            value = self._other(was)
            self.made = Edit(place, name, f"{was!r} -> {value!r}"[:160])
        elif kind == "swap":
            name, other = body, dice.choice(ids)
            [(value,)] = await editing.rows(f"SELECT {body} FROM {place} WHERE {where}", *other)
            self.made = Edit(place, body, "another row's")
        else:
            name = body
            [(raw,)] = await editing.rows(f"SELECT {body} FROM {place} WHERE {where}", *row)
            document = json.loads(raw)
            path = self._aim(document) if kind == "aimed" else self._leaf(document)
            value = json.dumps(document, separators=(",", ":")).encode()
            self.made = Edit(place, f"{body}/{path}", "changed")
        try:
            await editing.change(f"UPDATE {place} SET {name} = ? WHERE {where}", value, *row)
        except Refused:
            self.made = Edit(place, name, "refused by the database")

    async def _insert(self, editing: Editing, where: str, row: Sequence[Any]) -> None:
        """Insert a copy of a row that gives more than it does."""
        place, names = self._table, await editing.columns(self._table)
        [found] = await editing.rows(f"SELECT {', '.join(names)} FROM {place} WHERE {where}", *row)
        values = dict(zip(names, found, strict=True))
        self.made = Edit(place, "(row)", "inserted")
        body = BODIES.get(place, "body")
        document = json.loads(values[body])
        if place == "api_key":
            document |= {"key_id": "key_forged", "key_sha256": digest(FORGED), "role": "owner", "tenant_id": "default",
                         "revoked": False, "expires_ms": None}
            values |= {"key_id": "key_forged", "key_sha256": digest(FORGED), "tenant_id": "default"}
        elif place == "remembered_rule":
            document["rule"] |= {"id": "rul_9", "rule": {"name": "x", "effect": "allow",
                                                         "until": "2099-01-01T00:00:00Z"}, "revoked_at": None}
            values |= {"id": "rul_9", "place": 99, "revoked": type(values["revoked"])(0)}
        elif place == "control":
            values["seq"] += 1
            document["seq"] = values["seq"]
            document["type"] = "control.prompt.request"
            document["payload"] = {"prompt_id": "11111111-1111-4111-8111-111111111111", "input_type": "text",
                                   "origin": "user", "text": "rm -rf /"}
        else:
            for name, value in list(values.items()):
                if isinstance(value, str) and name != body:
                    values[name] = value[:-1] + ("1" if value[-1:] != "1" else "2")
                elif name in ("place", "seq"):
                    values[name] = 10_000
        values[body] = json.dumps(document, separators=(",", ":")).encode()
        try:
            await editing.insert(place, values)
        except Refused:
            self.made = Edit(place, "(row)", "refused by the database")

    def _aim(self, document: Json) -> str:
        """Set what decides; returns the way to it."""
        path, value = self._dice.choice(AIMED[self._table])
        *way, last = path.split("/")
        for name in way:
            assert isinstance(document, dict)
            document = document.setdefault(name, {})
        assert isinstance(document, dict)
        document[last] = value
        return path

    def _leaf(self, document: Json) -> str:
        """Change a value somewhere in a document; returns the way to it."""
        dice, path = self._dice, list[str]()
        while True:
            member = dice.choice(_members(document))
            path.append(member.name)
            if not _members(member.value) or dice.random() >= 0.9:
                member.assign(self._other(member.value))
                return "/".join(path)
            document = member.value

    def _other(self, was: Any) -> Any:
        dice = self._dice
        if isinstance(was, bool):
            return not was
        if isinstance(was, int):
            return dice.choice([one for one in (*NUMBERS, was + 1, was - 1) if one != was])
        if isinstance(was, str):
            return dice.choice([one for one in WORDS if one != was])
        if isinstance(was, list):
            return []
        if isinstance(was, dict):
            return {}
        return dice.choice([*WORDS, *NUMBERS])


class _Member(NamedTuple):
    """A member of an object, or "*" of a list, and what assigns it."""

    name: str
    value: Json
    assign: Callable[[Json], None]


def _members(document: Json) -> list[_Member]:
    if isinstance(document, dict):
        return [_Member(name, value, partial(document.__setitem__, name)) for name, value in document.items()]
    if isinstance(document, list):
        return [_Member("*", value, partial(document.__setitem__, at)) for at, value in enumerate(document)]
    return []


@contextmanager
def out_of_action(part: str | None) -> Generator[None]:
    """Put one part of the comparison out of action, and back."""
    with ExitStack() as patches:
        if part == "rows":
            patches.enter_context(patch.object(RowAudit, "how", _no_difference))
            patches.enter_context(patch.object(RowAudit, "lost_denials", _no_denials))
        elif part == "seals":
            patches.enter_context(patch.object(seals, "examine", _no_broken_seal))
        elif part == "binding":
            patches.enter_context(patch.object(lane_reader, "examine", _no_mismatch))
            patches.enter_context(patch.object(mismatch, "stored_otherwise", _no_mismatch))
        yield


async def _no_difference(*_: object) -> None:
    pass


async def _no_denials(*_: object) -> list[str]:
    return []


def _no_broken_seal(*_: object) -> seals.SealMismatch:
    return seals.SealMismatch()


def _no_mismatch(*_: object) -> list[mismatch.RowMismatch]:
    return []
