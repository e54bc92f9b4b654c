"""Votes in a lane: withdrawn, signed, on a changed input, and remembered as a rule (P-2, P-3, P-4, A-9); the chats in
which bridges have posted an approval: kept while it waits, replaced by the same bridge, bounded (J-5)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from authenticator import SoftAuthenticator
from engine.conversation import OWNER, Table, remember
from interlock.command.audit.record_seal import changed_approval, read
from interlock.command.policy.policy import QuorumGroup, Rule, RuleSet
from interlock.command.signature import Statement, key_id_of
from interlock.engine.bridge.approvals import votes
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.hold import PROGRAM
from interlock.protocol.identifiers import tenant_stream
from interlock.protocol.limits import MAX_CARD_CHATS, MAX_CARDS
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal, SigningKeyRecord
from interlock.protocol.resources import (
    Actor,
    CardsBody,
    CommandBody,
    FeedEvent,
    GrantBody,
    Passkey,
    Remembering,
    RuleMatch,
    SigningKey,
    Target,
)

pytestmark = pytest.mark.anyio

KIM = Principal(tenant_id="default", actor=Actor(type="user", id="kim"), role="approver", key_id="k1")
LEE = Principal(tenant_id="default", actor=Actor(type="user", id="lee"), role="approver", key_id="k2")
TWO = RuleSet([Rule(name="two", effect="ask", tool="shell", required=2)])


async def held(table: Table, command: str = "make", invocation: str = "i1") -> str:
    """Ask for a tool call in a new session's turn; gives the approval's id."""
    execute = await table.execute()
    session_id = execute.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id, command, invocation=invocation)
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


async def cast(table: Table, approval_id: str, who: Principal = OWNER, **body: Any) -> Any:
    return await table.engine.vote(who, approval_id, GrantBody(**{"decision": "grant", **body}), remember)


async def shown(table: Table, approval_id: str) -> Any:
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    return record.approval


@pytest.mark.req("P-3", "U-1")
async def test_a_vote_can_be_withdrawn_before_the_decision_and_both_are_recorded() -> None:
    table = Table(TWO)
    approval_id = await held(table)
    await cast(table, approval_id, KIM)
    await table.engine.withdraw(KIM, approval_id, remember)
    assert (await cast(table, approval_id, LEE)).state == "pending"
    assert (await cast(table, approval_id, OWNER)).state == "granted"
    assert [action for action in await table.actions() if action in ("vote", "withdraw", "approve")] == [
        "vote", "withdraw", "vote", "vote", "approve"]
    with pytest.raises(Problem, match="already granted"):
        await table.engine.withdraw(LEE, approval_id, remember)


@pytest.mark.req("P-3", "P-5")
async def test_every_vote_and_withdrawal_is_in_the_tenants_feed() -> None:
    table = Table(TWO)
    approval_id = await held(table)
    await cast(table, approval_id, KIM)
    await cast(table, approval_id, KIM)
    await table.engine.withdraw(KIM, approval_id, remember)
    await cast(table, approval_id, LEE)
    await cast(table, approval_id)
    feed = [msgspec.json.decode(one.body, type=FeedEvent)
            for one in await table.ledger.events("default", tenant_stream("default"), 0, 100)]
    assert [(one.state, one.by) for one in feed if one.event == "approval"] == [
        ("pending", "gateway"), ("pending", "user:kim"), ("pending", "user:kim"), ("pending", "user:lee"),
        ("granted", "user:owner")]


@pytest.mark.req("P-3", "U-1", "H-5")
async def test_an_agents_vote_withdrawn_by_its_driver_is_recorded_as_the_agents() -> None:
    table = Table(TWO)
    approval_id = await held(table)
    robot = msgspec.structs.replace(KIM, actor=Actor(type="agent", id="robot"), driver=KIM.actor)
    await cast(table, approval_id, robot)
    await table.engine.withdraw(KIM, approval_id, remember)
    records = [msgspec.json.decode(one.body) for one in await table.ledger.audit("default", 0, 100)]
    assert [(one["who"]["id"], one["meta"]["vote_of"]) for one in records if one["action"] == "withdraw"] == [
        ("user:kim", "agent:robot")]
    await table.restart()
    assert (await cast(table, approval_id, KIM, decision="deny")).state == "denied"
    assert "tampered" not in await table.actions()


@pytest.mark.req("P-4")
async def test_a_signed_vote_counts_and_the_audit_record_keeps_the_signature() -> None:
    table = Table(RuleSet([Rule(name="sign", effect="ask", tool="shell", signed=True)]))
    approval_id = await held(table)
    with pytest.raises(Problem, match="signed"):
        await cast(table, approval_id, KIM)
    pair = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public = base64.b64encode(pair.public_key().public_bytes_raw()).decode()
    key = SigningKey(key_id=key_id_of(public, "default"), tenant_id="default", owner=KIM.actor, public_key=public,
                     created_at="")
    draft = Statement("default", approval_id, (await shown(table, approval_id)).digest, "grant", "user:kim", key.key_id,
                      iso(table.clock.now_ms()))
    body = {"method": "signature", "key_id": key.key_id, "at": draft.at,
            "signature": base64.b64encode(pair.sign(draft.signed_bytes())).decode()}
    with pytest.raises(Problem, match="no signing key"):
        await cast(table, approval_id, KIM, **body)
    await table.ledger.commit(WriteBatch([Put(SigningKeyRecord(key=key))]))
    with pytest.raises(Problem, match="does not hold"):
        await cast(table, approval_id, KIM, **{**body, "decision": "deny"})
    assert (await cast(table, approval_id, KIM, **body)).state == "granted"
    metas = [msgspec.json.decode(record.body)["meta"] for record in await table.ledger.audit("default", 0, 100)]
    assert [meta["signature"] for meta in metas if "signature" in meta] == [body["signature"]]


@pytest.mark.req("J-17")
async def test_a_passkey_rule_counts_no_other_vote_and_the_assertion_is_recorded() -> None:
    table = Table(RuleSet([Rule(name="tap", effect="ask", tool="shell", signed="passkey")]))
    approval_id = await held(table)
    digest = (await shown(table, approval_id)).digest
    pair, soft = Ed25519PrivateKey.from_private_bytes(bytes(range(32))), SoftAuthenticator()
    public = base64.b64encode(pair.public_key().public_bytes_raw()).decode()
    plain = SigningKey(key_id=key_id_of(public, "default"), tenant_id="default", owner=KIM.actor, public_key=public,
                       created_at="")
    tap = SigningKey(key_id=key_id_of(soft.public_key, "default"), tenant_id="default", owner=KIM.actor, created_at="",
                     public_key=soft.public_key, passkey=Passkey(credential_id=soft.credential_id, origin=soft.origin))
    await table.ledger.commit(WriteBatch([Put(SigningKeyRecord(key=key)) for key in (plain, tap)]))

    def draft(key: SigningKey) -> Statement:
        return Statement("default", approval_id, digest, "grant", "user:kim", key.key_id, iso(table.clock.now_ms()))

    def tapped(statement: Statement) -> dict[str, Any]:
        return {"method": "passkey", "key_id": tap.key_id, "at": statement.at,
                "assertion": soft.confirms(statement.signed_bytes())}

    signature = base64.b64encode(pair.sign(draft(plain).signed_bytes())).decode()
    for body, why in (({}, "signed"), ({"method": "passkey", "key_id": tap.key_id}, "names key_id, at and assertion"),
                      ({"method": "signature", "key_id": plain.key_id, "at": draft(plain).at, "signature": signature},
                       "only votes with a passkey"),
                      ({**tapped(draft(tap)), "decision": "deny"}, "does not hold"),
                      (tapped(draft(tap)._replace(digest="00" * 32)), "does not hold")):
        with pytest.raises(Problem, match=why):
            await cast(table, approval_id, KIM, **body)
    voted = await cast(table, approval_id, KIM, **tapped(draft(tap)))
    assert (voted.state, voted.votes[0].method, voted.votes[0].key_id) == ("granted", "passkey", tap.key_id)
    metas = [msgspec.json.decode(record.body)["meta"] for record in await table.ledger.audit("default", 0, 100)]
    assert [sorted(meta["assertion"]) for meta in metas if "assertion" in meta] == [
        ["authenticator_data", "client_data_json", "signature"]]


@pytest.mark.req("A-9", "P-1")
async def test_always_in_this_session_allows_the_same_call_only_there() -> None:
    table = Table()
    approval_id = await held(table, "make test")
    voted = await cast(table, approval_id, remember=Remembering(scope="session"))
    assert table.wire.last("control.interaction.response").payload.option_id is None
    session_id = voted.session_id
    await table.resolved(session_id, "allowed")
    await table.result(session_id)
    await table.asked(session_id, "make test", invocation="i2")
    answer = table.wire.last("control.interaction.response").payload
    assert (answer.interaction_id, answer.decision) == ("x-i2", "allow")
    assert answer.by.startswith(f"policy:{voted.remembered}")
    await table.asked(session_id, "make install", invocation="i3")
    assert table.wire.sent[-1].type == "x-interlock.interaction.held"
    other = await held(table, "make test", invocation="j1")
    assert (await shown(table, other)).state == "pending"
    assert "policy_change" in await table.actions()


@pytest.mark.req("A-9", "P-1", "C-4")
async def test_a_tenants_remembered_rule_survives_restarts_until_revoked() -> None:
    table = Table()
    approval_id = await held(table, "git status")
    match = RuleMatch(words=["git status **", "git diff **"])
    voted = await cast(table, approval_id, remember=Remembering(scope="rule", match=match))
    table.begin()
    await table.engine.start()
    assert [rule.name.split(":")[0] for rule in table.engine.policy.rules] == [voted.remembered]
    table.engine.configure(RuleSet(), table.limits)
    assert len(table.engine.policy.rules) == 1, "a reloaded config does not forget what people said"


@pytest.mark.req("A-9")
async def test_a_remembered_rule_must_match_the_call_and_cannot_replace_a_quorum() -> None:
    table = Table()
    approval_id = await held(table, "make test")
    with pytest.raises(Problem, match="does not fit the call"):
        await cast(table, approval_id, remember=Remembering(scope="session", match=RuleMatch(words="rm **")))
    with pytest.raises(Problem, match="not a regular expression"):
        await cast(table, approval_id, remember=Remembering(scope="session", match=RuleMatch(command="(")))
    with pytest.raises(Problem, match="kept by an admin"):
        await cast(table, approval_id, KIM, remember=Remembering(scope="rule"))
    assert (await shown(table, approval_id)).votes == []
    two = Table(TWO)
    with pytest.raises(Problem, match="cannot replace it"):
        await cast(two, await held(two), remember=Remembering(scope="session"))


@pytest.mark.req("O-12", "H-5")
async def test_a_dangerous_call_is_marked_sealed_and_never_remembered() -> None:
    table = Table(RuleSet([Rule(name="production", effect="ask", tool="shell", dangerous=True)]))
    approval_id = await held(table)
    assert (await shown(table, approval_id)).dangerous
    with pytest.raises(Problem, match="marked dangerous"):
        await cast(table, approval_id, remember=Remembering(scope="session"))
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    harmless = msgspec.structs.replace(record, approval=msgspec.structs.replace(record.approval, dangerous=False))
    found = read(await table.ledger.audit_about("default", record.approval.command_id or approval_id))
    assert (changed_approval(record, found), changed_approval(harmless, found)) == (
        None, "its dangerous is not the recorded one")
    assert (await cast(table, approval_id)).state == "granted"


@pytest.mark.parametrize("effect", ["allow", "deny"])
def test_only_an_ask_rule_can_mark_a_call_dangerous(effect: Any) -> None:
    with pytest.raises(ValueError, match="dangerous: it marks what people are asked about"):
        Rule(name="x", effect=effect, tool="shell", dangerous=True)


@pytest.mark.req("P-1")
async def test_a_quorum_takes_precedence_over_a_remembered_rule() -> None:
    table = Table()
    approval_id = await held(table, "make test")
    await cast(table, approval_id, remember=Remembering(scope="rule", match=RuleMatch(words="make test")))
    table.engine.configure(TWO, table.limits)
    names = [rule.name for rule in table.engine.policy.rules]
    assert names[0] == "two"
    assert len(names) == 2


async def taking_changes(table: Table, command: str = "rm -r build") -> tuple[str, str]:
    execute = await table.execute()
    session_id = execute.target.session_id
    await table.send(session_id, "session.capabilities", p.Capabilities(
        dps_version=DPS_VERSION, features={"adapter_type": "sdk", "permission": "asks", "updated_input": True}))
    await table.started(session_id)
    await table.asked(session_id, command)
    return session_id, table.wire.last("x-interlock.interaction.held").payload.approval_id


@pytest.mark.req("P-2", "U-1")
async def test_a_changed_input_is_a_new_approval_with_that_vote_as_its_first() -> None:
    table = Table(TWO)
    session_id, approval_id = await taking_changes(table)
    raw = b'{ "command": "rm -r build/tmp" }'
    voted = await cast(table, approval_id, KIM, updated_input=msgspec.Raw(raw))
    old = await shown(table, approval_id)
    assert (old.state, old.superseded_by) == ("superseded", voted.id)
    assert (old.accepts_change, voted.accepts_change) == (True, True)
    assert (voted.state, voted.supersedes, voted.digest) == ("pending", approval_id, hashlib.sha256(raw).hexdigest())
    assert bytes(voted.input) == raw
    assert [vote.by for vote in voted.votes] == ["user:kim"]
    assert table.wire.last("x-interlock.interaction.held").payload.approval_id == voted.id
    with pytest.raises(Problem, match="superseded"):
        await cast(table, approval_id, LEE)
    await cast(table, voted.id, LEE)
    answer = table.wire.last("control.interaction.response").payload
    assert (answer.decision, answer.updated_input) == ("allow", {"command": "rm -r build/tmp"})
    await table.resolved(session_id, "allowed")
    assert (await shown(table, voted.id)).state == "consumed"
    assert [action for action in await table.actions() if action in ("supersede", "vote", "approve")] == [
        "supersede", "vote", "vote", "approve"]


@pytest.mark.req("P-2")
async def test_a_changed_input_is_refused_before_the_vote_if_the_agent_cannot_use_it() -> None:
    table = Table()
    approval_id = await held(table)
    with pytest.raises(Problem) as refused:
        await cast(table, approval_id, updated_input=msgspec.Raw(b'{"command":"ls"}'))
    assert refused.value.code == "UnsupportedCapability"
    after = await shown(table, approval_id)
    assert (after.accepts_change, after.votes) == (False, [])


@pytest.mark.req("P-2", "H-16")
async def test_a_held_programs_start_cannot_be_changed_though_its_agent_accepts_changes() -> None:
    table = Table()
    session_id, first = await taking_changes(table)
    await table.asked(session_id, invocation="i2", tool=PROGRAM)
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    assert [(await shown(table, one)).accepts_change for one in (first, approval_id)] == [True, False]
    with pytest.raises(Problem) as refused:
        await cast(table, approval_id, updated_input=msgspec.Raw(b'{"command":"ls"}'))
    assert refused.value.code == "UnsupportedCapability"


@pytest.mark.req("P-1", "P-2")
async def test_an_input_cannot_be_changed_into_a_denied_call_or_an_easier_quorum() -> None:
    table = Table(RuleSet([Rule(name="no sudo", effect="deny", command="sudo .*"),
                           Rule(name="two", effect="ask", command="rm .*", required=2)]))
    _, approval_id = await taking_changes(table)
    with pytest.raises(Problem, match="no sudo"):
        await cast(table, approval_id, updated_input=msgspec.Raw(b'{"command":"sudo rm"}'))
    with pytest.raises(Problem, match="is an object"):
        await cast(table, approval_id, updated_input=msgspec.Raw(b'["ls"]'))
    voted = await cast(table, approval_id, updated_input=msgspec.Raw(b'{"command":"ls"}'))
    assert (voted.state, voted.required) == ("pending", 2)


@pytest.mark.req("P-2", "P-3")
async def test_a_voter_who_does_not_count_on_the_changed_input_is_refused() -> None:
    table = Table(RuleSet([Rule(name="others", effect="ask", command="ls .*", self_approval=False)]))
    _, approval_id = await taking_changes(table)
    with pytest.raises(Problem) as refused:
        await cast(table, approval_id, OWNER, updated_input=msgspec.Raw(b'{"command":"ls -l"}'))
    assert refused.value.code == "Forbidden"
    assert (table.wire.failed, (await shown(table, approval_id)).state) == (None, "pending")
    voted = await cast(table, approval_id, KIM, updated_input=msgspec.Raw(b'{"command":"ls -l"}'))
    assert (voted.state, voted.rule) == ("granted", "others")


@pytest.mark.req("P-1", "P-2")
async def test_a_changed_input_needs_the_requirements_of_both_rules() -> None:
    table = Table(RuleSet([Rule(name="admins", effect="ask", command="rm .*", groups=[QuorumGroup(role="admin")]),
                           Rule(name="two", effect="ask", command="ls .*", required=2, deny_threshold=3)]))
    _, approval_id = await taking_changes(table)
    voted = await cast(table, approval_id, KIM, updated_input=msgspec.Raw(b'{"command":"ls -l"}'))
    assert (voted.rule, voted.required, voted.deny_threshold) == ("admins and two", 2, 1)
    assert [(group.role, group.min) for group in voted.groups] == [("admin", 1)]
    assert (await cast(table, voted.id, LEE)).state == "pending"
    admin = Principal(tenant_id="default", actor=Actor(type="user", id="ada"), role="admin", key_id="k3")
    assert (await cast(table, voted.id, admin)).state == "granted"


@pytest.mark.req("P-3", "A-9")
async def test_the_agent_receives_the_voted_option_and_never_an_always_option() -> None:
    table = Table()
    execute = await table.execute()
    session_id = execute.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    options = [p.InteractionOption(option_id=kind, label=kind, kind=kind)  # type: ignore[arg-type]
               for kind in ("allow_always", "allow_once", "reject_once")]
    await table.send(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x", interaction_type="PERMISSION", title="ls", options=options,
        context=p.InteractionContext(tool_name="shell")))
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    assert [option.option_id for option in (await shown(table, approval_id)).options] == ["allow_once", "reject_once"]
    with pytest.raises(Problem, match="offers: allow_once"):
        await cast(table, approval_id, option_id="allow_always")
    with pytest.raises(Problem, match="a signature covers"):
        await cast(table, approval_id, option_id="allow_once", method="signature", key_id="k", at="", signature="s")
    assert (await cast(table, approval_id, option_id="allow_once")).option_id == "allow_once"
    answer = table.wire.last("control.interaction.response").payload
    assert (answer.decision, answer.option_id) == ("allow", "allow_once")


@pytest.mark.req("P-3")
async def test_the_driver_of_a_commanding_agent_is_known_at_both_doors() -> None:
    table = Table(RuleSet([Rule(name="others", effect="ask", self_approval=False)]))
    robot = Principal(tenant_id="default", actor=Actor(type="agent", id="robot"), role="operator", key_id="k4",
                      driver=KIM.actor)
    payload = msgspec.Raw(b'{"messages":[{"role":"user","content":[{"contentType":"text","value":"hi"}]}]}')
    body = CommandBody(type="execute", target=Target(agent_id="shell"), payload=payload)
    command = await table.engine.submit(robot, body, remember)
    assert command.driver == KIM.actor, "every surface shows it"
    for _ in ("the command", "its tool"):
        inbox = await table.ledger.approvals("default", "pending", None, 2)
        with pytest.raises(Problem, match="drives the requesting agent"):
            await cast(table, inbox[0].approval.id, KIM)
        assert (await cast(table, inbox[0].approval.id, LEE)).state in ("granted", "consumed")
        if "control.prompt.request" in table.wire.types() and await table.state(command.id) == "dispatched":
            await table.opened(command.target.session_id)
            await table.started(command.target.session_id)
            await table.asked(command.target.session_id)


@pytest.mark.req("A-9", "P-3")
async def test_a_vote_without_a_decision_creates_no_rule() -> None:
    table = Table(RuleSet([Rule(name="two noes", effect="ask", tool="shell", deny_threshold=2)]))
    approval_id = await held(table)
    with pytest.raises(Problem, match="One vote does not decide"):
        await cast(table, approval_id, KIM, decision="deny", remember=Remembering(scope="session"))
    assert (await shown(table, approval_id)).votes == []
    assert "policy_change" not in await table.actions()


@pytest.mark.req("A-9")
async def test_the_remembered_rules_of_a_tenant_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes, "MAX_REMEMBERED_RULES", 1)
    table = Table()
    await cast(table, await held(table, "make"), remember=Remembering(scope="session"))
    other = await held(table, "ls", invocation="i2")
    with pytest.raises(Problem) as refused:
        await cast(table, other, remember=Remembering(scope="session"))
    assert refused.value.code == "QuotaExceeded"
    assert (await cast(table, other)).state == "granted"


@pytest.mark.req("P-3", "P-6")
async def test_a_late_vote_does_not_count_although_no_timer_has_fired() -> None:
    """The timer of a host that slept, or of a gateway that was down, rings late."""
    table = Table()
    approval_id = await held(table)
    table.clock.advance(24 * 3_600_000)
    with pytest.raises(Problem, match=r"expired at \S+; this vote was not counted"):
        await cast(table, approval_id)
    assert (await shown(table, approval_id)).state == "expired"
    assert table.wire.types()[-1] == "control.interaction.timeout"
    with pytest.raises(Problem, match=r"expired at \S+; nothing was taken back"):
        await table.engine.withdraw(OWNER, approval_id, remember)
    assert "vote" not in await table.actions()


def bridge(name: str) -> Principal:
    return Principal(tenant_id="default", actor=Actor(type="agent", id=name), role="viewer", key_id=f"key_{name}")


async def report(table: Table, approval_id: str, who: Principal, service: str, *chats: str) -> Any:
    return await table.engine.report_cards(who, approval_id, CardsBody(service=service, chats=list(chats)), remember)


def places(approval: Any) -> list[tuple[str, str, str]]:
    return [(card.service, card.chat, card.reported_by) for card in approval.cards]


@pytest.mark.req("J-5")
async def test_a_bridge_replaces_its_own_cards_and_keeps_those_of_others() -> None:
    table = Table(RuleSet([Rule(name="ask", effect="ask", tool="shell")]))
    approval_id = await held(table)
    await report(table, approval_id, bridge("tg"), "telegram", "user:ann", "user:bo", "user:ann")
    await report(table, approval_id, bridge("sl"), "slack", "C1")
    await report(table, approval_id, bridge("tg"), "telegram", "user:bo")
    assert places(await shown(table, approval_id)) == [
        ("slack", "C1", "agent:sl"), ("telegram", "user:bo", "agent:tg")]
    await report(table, approval_id, bridge("tg"), "telegram")
    assert places(await shown(table, approval_id)) == [("slack", "C1", "agent:sl")]


@pytest.mark.req("J-5", "U-1")
async def test_a_card_is_not_a_decision_and_is_removed_with_its_approval() -> None:
    table = Table(RuleSet([Rule(name="two", effect="ask", tool="shell", required=2)]))
    approval_id = await held(table)
    before = await table.ledger.audit("default", 0, 1_000)
    await report(table, approval_id, bridge("tg"), "telegram", "user:ann")
    assert await table.ledger.audit("default", 0, 1_000) == before
    voted = await cast(table, approval_id, KIM)
    assert voted.state == "pending"
    assert places(voted) == [("telegram", "user:ann", "agent:tg")]
    assert places(await cast(table, approval_id, LEE)) == []
    assert places(await shown(table, approval_id)) == []
    with pytest.raises(Problem, match="is decided"):
        await report(table, approval_id, bridge("tg"), "telegram", "user:ann")


@pytest.mark.req("J-5")
async def test_the_chats_of_all_bridges_together_are_bounded() -> None:
    table = Table(RuleSet([Rule(name="ask", effect="ask", tool="shell")]))
    approval_id = await held(table)
    full = [f"C{n}" for n in range(MAX_CARD_CHATS)]
    for number in range(MAX_CARDS // MAX_CARD_CHATS):
        await report(table, approval_id, bridge(f"b{number}"), "slack", *full)
    with pytest.raises(Problem) as refused:
        await report(table, approval_id, bridge("more"), "slack", "C1")
    assert refused.value.code == "QuotaExceeded"
    assert len((await shown(table, approval_id)).cards) == MAX_CARDS
