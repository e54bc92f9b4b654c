"""The simulation detects failures: an engine that is broken on purpose, each time in another way, is noticed under the
number of the invariant that it breaks."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.bridge.lane import Lane
from interlock.ports.ledger import Append, AuditAppend, Receipt, WriteBatch
from interlock.protocol.payloads import InteractionResponse
from proof.simulation.network import Store
from proof.simulation.trial import trial
from proof.simulation.world import Size

SIZE = Size(runners=12, sessions=40, viewers=10, gateways=3, steps=40)
pytestmark = pytest.mark.req("C-4", "S-1", "S-3", "M-1", "P-2", "U-1", "K-1")


def noticed(seed: int = 3, **changes: Any) -> set[str]:
    """The numbers of the invariants that do not hold."""
    broken, _ = trial(seed, SIZE._replace(**changes))
    return {sentence[0] for sentence in broken}


def test_an_intact_engine_breaks_no_rule() -> None:
    assert noticed() == set()


def test_a_prompt_that_is_sent_twice_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    once = Lane.control

    def twice(lane: Lane, kind: str, *given: Any, **named: Any) -> Any:
        if kind == "control.prompt.request":
            once(lane, kind, *given, **named)
        return once(lane, kind, *given, **named)

    monkeypatch.setattr(Lane, "control", twice)
    assert "1" in noticed()


def test_an_acknowledgement_before_the_commit_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    commit, commits = Store.commit, 0

    async def forgets(store: Store, batch: WriteBatch) -> Receipt:
        nonlocal commits
        commits += any(isinstance(write, Append) for write in batch.writes)
        if commits % 25 or not batch.epochs:
            return await commit(store, batch)
        heads = {write.stream: store.last(write.stream) for write in batch.writes if isinstance(write, Append)}
        numbers = []
        for write in batch.writes:
            if isinstance(write, Append):
                heads[write.stream] += 1
                numbers.append(heads[write.stream])
        return Receipt(numbers, [0 for write in batch.writes if isinstance(write, AuditAppend)])

    monkeypatch.setattr(Store, "commit", forgets)
    assert {"1", "6"} <= noticed(failures=0.0)


def test_a_denial_taken_for_a_grant_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Lane.control

    def allow(lane: Lane, kind: str, payload: Any, *given: Any, **named: Any) -> Any:
        if isinstance(payload, InteractionResponse):
            payload = InteractionResponse(**{name: getattr(payload, name) for name in payload.__struct_fields__}
                                          | {"decision": "allow"})
        return control(lane, kind, payload, *given, **named)

    monkeypatch.setattr(Lane, "control", allow)
    assert "2" in noticed()


def test_a_transition_without_its_record_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Lane.audit

    def forgets(lane: Lane, action: str, *given: Any, **named: Any) -> None:
        if action != "complete":
            audit(lane, action, *given, **named)

    monkeypatch.setattr(Lane, "audit", forgets)
    assert noticed() == {"3"}


def test_a_session_shown_to_another_tenant_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Store.session

    async def anyones(store: Store, session_id: str, tenant_id: str | None = None) -> Any:
        return await session(store, session_id)

    monkeypatch.setattr(Store, "session", anyones)
    assert "7" in noticed()
