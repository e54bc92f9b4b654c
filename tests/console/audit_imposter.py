"""Answers to the page's requests for the audit log in place of the gateway, with logs and proofs made in Python."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.command.tampering import KEY, signed
from tests.console.pages import origin

from interlock.command.audit.audit import record_line
from interlock.command.audit.audit_tree import SubtreeHashes, answer, consistency, inclusion, root_of
from interlock.command.audit.note import Checkpoint, origin_of
from interlock.protocol.records import AuditRecord
from proof.processes.stack import Stack

WITNESS = "interlock.audit.witness"


class Verdict(NamedTuple):
    """The page's verdict on a log."""

    state: str
    kind: str | None
    record: int | None


def opened(page: Any, stack: Stack) -> None:
    page.goto(f"{origin(stack)}/console/audit")


def verdict(page: Any) -> Verdict:
    """Wait until the check has ended."""
    shown = page.locator(".verdict:not([data-state=reading])")
    shown.wait_for()
    record = shown.get_attribute("data-record")
    return Verdict(shown.get_attribute("data-state"), shown.get_attribute("data-kind"), int(record) if record else None)


Lie = Callable[[Any], Any]
"""What is sent in place of an answer."""


def honest(answer: Any) -> Any:
    return answer


def inclusion_of(records: Sequence[AuditRecord], seq: int, size: int) -> dict[str, Any]:
    """The answer about one record of a tree."""
    proof = answer(inclusion(seq - 1, size), _Hashes(records))
    return {"seq": seq, "size": size, "hash": records[seq - 1].hash, "root": _root(records, size),
            "proof": [one.hex() for one in proof]}


def consistency_of(records: Sequence[AuditRecord], first: int, second: int) -> dict[str, Any]:
    """The answer about two trees."""
    proof = answer(consistency(first, second), _Hashes(records))
    return {"first": first, "second": second, "first_root": _root(records, first),
            "second_root": _root(records, second), "proof": [one.hex() for one in proof]}


class _Hashes:
    def __init__(self, records: Sequence[AuditRecord]) -> None:
        self._leaves = _leaves(records)

    def __call__(self, span: SubtreeHashes) -> list[bytes]:
        width = 1 << span.level
        return [root_of(self._leaves[at * width : (at + 1) * width]) for at in range(span.start, span.end)]


def _leaves(records: Sequence[AuditRecord]) -> list[bytes]:
    return [bytes.fromhex(one.hash) for one in records]


def _root(records: Sequence[AuditRecord], size: int) -> str:
    return root_of(_leaves(records)[:size]).hex()


def _numbers(route: Any, *names: str) -> list[int]:
    query = parse_qs(urlsplit(route.request.url).query)
    return [int(query[name][0]) for name in names]


class Imposter:
    """Serves `lines` as the export, `records` as the list and below the proofs, and `checkpoint` as the newest."""

    def __init__(self, page: Any) -> None:
        self.lines: Sequence[bytes] = ()
        self.records: Sequence[AuditRecord] = ()
        self.checkpoint = signed([])
        self.listing: Lie = honest
        self.inclusion: Lie = honest
        self.consistency: Lie = honest
        self.asked: list[str] = []
        self._page = page
        raw = KEY.public_key().public_bytes_raw()
        key = {"origin": origin_of("gw_1", "t1"), "algorithm": "Ed25519", "public_key": base64.b64encode(raw).decode(),
               "sha256": hashlib.sha256(raw).hexdigest(), "note_key_id": "00000000"}
        route = page.context.route
        route("**/v1/audit/key", lambda one: one.fulfill(json=key))
        route("**/v1/audit/checkpoint", lambda one: one.fulfill(body=self.checkpoint.note))
        route("**/v1/audit/export", self._export)
        route("**/v1/audit?*", lambda one: one.fulfill(json=self.listing(self._list())))
        route("**/v1/audit/proof/inclusion?*", lambda one: one.fulfill(json=self.inclusion(self._included(one))))
        route("**/v1/audit/proof/consistency?*", lambda one: one.fulfill(json=self.consistency(self._consistent(one))))

    def check(self, lines: Sequence[bytes], kept: Checkpoint | None = None) -> Verdict:
        """Have the page check each of these lines, as a browser that has seen `kept`."""
        self.lines = lines
        self.witness(kept)
        self._page.get_by_role("button", name="Verify again").or_(
            self._page.get_by_role("button", name="Verify every record")).click()
        return verdict(self._page)

    def visit(self, records: Sequence[AuditRecord], checkpoint: Checkpoint, kept: Checkpoint) -> Verdict:
        """Have the view open on this log, as of a browser that has seen `kept`. What was open has ended its check."""
        self._page.locator("nav a[href='/console/settings']").click()
        self._page.locator(".verdict").wait_for(state="detached")
        self.records, self.checkpoint = records, checkpoint
        self.asked.clear()
        self.witness(kept)
        self._page.locator("nav a[href='/console/audit']").click()
        return verdict(self._page)

    def witness(self, kept: Checkpoint | None) -> None:
        stored = json.dumps({"note": kept.note, "at": "2026-11-23T00:00:00Z"}) if kept is not None else None
        self._page.evaluate("""([name, note]) => note === null ? localStorage.removeItem(name)
                               : localStorage.setItem(name, note)""", [WITNESS, stored])

    def _export(self, route: Any) -> None:
        self.asked.append("export")
        route.fulfill(body=b"".join(self.lines))

    def _list(self) -> dict[str, Any]:
        return {"items": [json.loads(record_line(one)) for one in reversed(self.records)], "next_cursor": "",
                "has_more": False}

    def _included(self, route: Any) -> dict[str, Any]:
        return inclusion_of(self.records, *_numbers(route, "seq", "size"))

    def _consistent(self, route: Any) -> dict[str, Any]:
        return consistency_of(self.records, *_numbers(route, "first", "second"))
