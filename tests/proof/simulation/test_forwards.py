"""Commands at a gateway that does not have the session are answered in time, truly, and done once; an engine that is
broken on purpose is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import count
from typing import Any

import msgspec
import pytest

from interlock.gateway import cluster_member
from interlock.gateway.rest import forwarder
from interlock.gateway.rest.forwarder import Answered, Forwarding
from proof.simulation.forwards import FAULTS, Found, forwards

SEED, ROUNDS = 2, 40
FEW = 12
"""Rounds in which most of what is broken is noticed."""
pytestmark = pytest.mark.req("C-4", "M-1")


def broken(found: Found, words: str) -> bool:
    return any(words in sentence for sentence in found.broken)


def test_a_forwarded_command_runs_once_and_is_answered_in_time_through_every_failure() -> None:
    found = forwards(SEED, ROUNDS)
    assert found.broken == []
    assert found.befell.keys() == FAULTS.keys()
    assert min(found.answers["202"], found.answers["503"]) >= 20


def test_a_forward_without_its_key_runs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    there, numbers = Forwarding._there, count()

    async def another_key(self: Forwarding, instance_id: str, scope: Any, *rest: Any) -> Any:
        headers = [(name, value) for name, value in scope["headers"] if name != b"idempotency-key"]
        key = (b"idempotency-key", b"another-key-%07d" % next(numbers))
        return await there(self, instance_id, {**scope, "headers": [*headers, key]}, *rest)

    monkeypatch.setattr(Forwarding, "_there", another_key)
    assert broken(forwards(SEED, FEW), "was done 2 times")


def test_an_answer_before_the_commit_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = set[asyncio.Task[bytes]]()

    async def early(rest: Any, raw: bytes) -> bytes:
        under_way.add(asyncio.create_task(forwarder.answer_sent(rest, raw)))
        return msgspec.msgpack.encode(Answered(202, [], b'{"id": "cmd-that-will-be"}'))

    monkeypatch.setattr(cluster_member, "answer_sent", early)
    assert broken(forwards(SEED, FEW), "before that was in the ledger")


def test_an_attempt_with_a_forgotten_outcome_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "NoResponder", Exception)
    assert broken(forwards(SEED, FEW), "was answered that nothing was done")


def test_an_attempt_without_an_end_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def for_ever(_deadline: float, answering: Awaitable[Any]) -> Any:
        return await answering

    monkeypatch.setattr(forwarder, "_by", for_ever)
    assert broken(forwards(SEED, ROUNDS), "had no answer 21 s after it was sent")
