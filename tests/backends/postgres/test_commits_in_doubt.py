"""A link to PostgreSQL that breaks between a commit and its reply, with gateways at work: nothing acknowledged is
lost, nothing is done twice, and the caller receives the outcome, or a 503 after which a repetition finds it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backends.postgres.proxy import Break, Proxy, proxied
from clusters.street import CAPABILITIES, Answer, Member, Street, street
from gateway.raw_runner import Runner
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres import database, writer
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.command.policy.policy import Rule, RuleSet
from interlock.ports.leases import Instance
from interlock.ports.ledger import LaneName, OutcomeUnknown

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4", "D-1", "M-1")]
KEY = "key-of-a-commit-in-doubt"
BREAKS: list[Break] = ["before", "after"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "RETRY_MIN_S", 0.001)
    monkeypatch.setattr(writer, "RETRY_MIN_S", 0.001)


@pytest.fixture
async def proxy(postgres: PostgresSettings, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with proxied(postgres, tmp_path) as between:
        yield between


@pytest.fixture
async def town(postgres: PostgresSettings, proxy: Proxy) -> AsyncIterator[Street]:
    """Two gateways whose ledger is behind the proxy, and whose leases are not."""
    ledger = await open_ledger(PostgresSettings(proxy.url), ManualClock())
    leases = await open_leases(postgres)
    async with street(2, stores=(ledger, leases)) as made:
        yield made
    await leases.close()
    await ledger.close()


@contextlib.asynccontextmanager
async def session(member: Member) -> AsyncIterator[tuple[Runner, str]]:
    """A session that is open at a gateway, with its runner."""
    async with member.attached() as runner:
        session_id = (await member.execute()).body["target"]["session_id"]
        await runner.frame("control.prompt.request")
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=1)
        await runner.acked(1)
        yield runner, session_id


async def commands(member: Member) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await member.ask("GET", "/v1/commands?limit=200")).body["items"]
    return listed


def is_retryable(answer: Answer) -> bool:
    return answer.status == 503 and answer.body["retryable"] and "retry-after" in answer.headers


@pytest.mark.parametrize("breaks", BREAKS)
async def test_a_command_is_accepted_once(town: Street, proxy: Proxy, breaks: Break) -> None:
    here, there = town.members
    async with session(here) as (_, session_id):
        proxy.on_commit = [breaks]
        accepted = await there.execute("in doubt", KEY, session_id=session_id)
        assert not proxy.on_commit
        assert accepted.status == 202

        again = await here.execute("in doubt", KEY, session_id=session_id)
        assert (again.status, again.body["id"]) == (202, accepted.body["id"])
        assert again.headers["idempotency-replayed"] == "true"
        assert len(await commands(here)) == 2


@pytest.mark.parametrize("breaks", BREAKS)
async def test_a_vote_counts_once(town: Street, proxy: Proxy, breaks: Break) -> None:
    here, there = town.members
    async with session(here) as (_, session_id):
        here.engine.policy = RuleSet([Rule(name="asks", effect="ask", door="command")])
        assert (await here.execute("held", session_id=session_id)).status == 202
        approval, = (await here.ask("GET", "/v1/approvals?state=pending")).body["items"]
        path = f"/v1/approvals/{approval['id']}/grants"

        proxy.on_commit = [breaks]
        vote = await there.ask("POST", path, {"decision": "grant"}, KEY)
        assert not proxy.on_commit
        assert vote.status == 200, vote

        again = await here.ask("POST", path, {"decision": "grant"}, KEY)
        assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
        shown = (await here.ask("GET", f"/v1/approvals/{approval['id']}")).body
        assert (shown["state"], len(shown["votes"])) == ("granted", 1)


@pytest.mark.parametrize("breaks", BREAKS)
async def test_frames_are_appended_once_before_they_are_acknowledged(
        town: Street, proxy: Proxy, breaks: Break) -> None:
    here, _ = town.members
    async with session(here) as (runner, session_id):
        stream = f"s/{session_id}"
        head = await town.ledger.head("default", stream)
        proxy.on_commit = [breaks]
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=2)
        await runner.acked(2)
        assert not proxy.on_commit

        since = [event.kind for event in await town.ledger.events("default", stream, head, 99)]
        assert since.count("session.capabilities") <= 1
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=2)  # Sent once more.
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=3)
        await runner.acked(3)


@pytest.mark.parametrize("breaks", BREAKS)
async def test_a_command_of_unknown_outcome_is_reported_and_found_by_its_key(
        town: Street, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, breaks: Break) -> None:
    here, there = town.members
    async with session(here) as (_, session_id):
        with monkeypatch.context() as impatient:
            impatient.setattr(writer, "WAIT_FOR_SERVER_S", 0.01)
            proxy.on_commit = [breaks]
            proxy.down = True
            answer = await here.execute("in doubt", KEY, session_id=session_id)
            proxy.down = False
        assert is_retryable(answer), answer
        assert not proxy.on_commit

        again = await there.execute("in doubt", KEY, session_id=session_id)
        assert again.status == 202, again
        # A committed one is found; an uncommitted one is done now.
        assert ("idempotency-replayed" in again.headers) == (breaks == "after")
        assert len(await commands(here)) == 2


@pytest.mark.parametrize("breaks", BREAKS)
async def test_a_claim_is_done_once(postgres: PostgresSettings, proxy: Proxy, breaks: Break) -> None:
    ledger = await open_ledger(postgres, ManualClock())
    leases = await open_leases(PostgresSettings(proxy.url))
    lane = LaneName("t1", "s-1")
    await leases.join(Instance("i_heir", ""))
    await leases.join(Instance("i_dead", ""))
    assert (await leases.take(lane, "i_dead")).epoch == 1
    await leases.leave("i_dead")

    proxy.on_commit = [breaks]
    epochs = await leases.claim([(lane, None)], "i_heir")
    assert not proxy.on_commit
    assert epochs == {lane: 2}
    assert await leases.owner(lane) == "i_heir"
    await leases.close()
    await ledger.close()


async def test_a_claim_of_unknown_outcome_leaves_the_lane_available(
        postgres: PostgresSettings, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = await open_ledger(postgres, ManualClock())
    leases = await open_leases(PostgresSettings(proxy.url))
    lane = LaneName("t1", "s-1")
    await leases.join(Instance("i_heir", ""))
    await leases.join(Instance("i_dead", ""))
    await leases.take(lane, "i_dead")
    await leases.leave("i_dead")
    with monkeypatch.context() as impatient:
        impatient.setattr(writer, "WAIT_FOR_SERVER_S", 0.01)
        proxy.on_commit = ["after"]
        proxy.down = True
        with pytest.raises(OutcomeUnknown):
            await leases.claim([(lane, None)], "i_heir")
        proxy.down = False

    assert await leases.orphans(9) == []
    assert (await leases.take(lane, "i_heir")).epoch == 3
    await leases.close()
    await ledger.close()
