"""Files of a workspace that configure its agent, as the gateway handles them: the conversation with the runner
(H-13)."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.command.audit.register import bound
from interlock.command.policy.policy import QuorumGroup, Rule, RuleSet
from interlock.engine.bridge.inputs.gateway import ClockTicked, StartLooked
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.problems import Problem
from interlock.protocol.records import RuleRecord
from interlock.protocol.resources import GrantBody, Remembering, Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-13", "P-1")]
SENTENCE = "A file in /w would configure the agent shell, and no one has allowed that."


def files(content: str = "one", *paths: str) -> bytes:
    """The runner's report of the files."""
    found = [p.WorkspaceFile(path=path, could=["runs programs"], does=["at SessionStart runs: touch x"], size=3,
                             sha256=hashlib.sha256(content.encode()).hexdigest())
             for path in paths or (".qwen/settings.json",)]
    return msgspec.json.encode(p.WorkspaceFiles(agent_id="shell", directory="/w", files=found))


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


async def finds(table: Table, session_id: str, raw: bytes) -> None:
    """The runner finds files, does not start the agent, and refuses the prompt that meets no open session."""
    opened, prompt = table.wire.last("control.session.open"), table.wire.last("control.prompt.request")
    await table.send(session_id, "session.error", p.SessionError(
        error_code=Code.WORKSPACE_NOT_TRUSTED, message=SENTENCE, fatal=True, workspace_files=msgspec.Raw(raw)),
                     in_reply_to=opened.message_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="the agent could not be started"))
    await table.send(session_id, "session.error", p.SessionError(
        error_code=Code.SESSION_NOT_FOUND, message="The session is not open on this runner.", fatal=False),
                     in_reply_to=prompt.message_id)


async def asked(table: Table) -> Any:
    """The one approval that waits."""
    (record,) = await table.ledger.approvals("default", "pending", None, 10)
    return record.approval


async def settled(table: Table, session_id: str) -> None:
    await table.engine.learn_rules()
    await (await table.lane(session_id)).call(StartLooked())


async def now(table: Table, command: Any) -> Any:
    found = await table.ledger.command(command.id, "default")
    assert found is not None
    return found.command


async def test_the_command_waits_and_the_question_names_the_found_files() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    opened = len(table.wire.types())
    await finds(table, session_id, files("one", ".mcp.json", ".qwen/settings.json"))
    approval = await asked(table)
    assert (await now(table, command)).state == "queued"
    assert "control.session.open" not in table.wire.types()[opened:]
    assert approval.title == "start shell as .mcp.json and 1 more of /w configure it"
    assert (approval.door, approval.workspace_files, approval.command_id) == ("command", True, command.id)
    assert approval.digest == digest(files("one", ".mcp.json", ".qwen/settings.json"))
    assert approval.rule == "ask about files that configure an agent"


async def test_a_grant_starts_the_agent_with_the_shown_digest_and_is_remembered() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    assert table.wire.last("control.session.open").payload.trusted_files is None
    await finds(table, session_id, files())
    voted = await table.vote((await asked(table)).id, "grant")
    assert table.wire.last("control.session.open").payload.trusted_files == digest(files())
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    assert (await now(table, command)).state == "succeeded"
    (rule,) = [one.rule for one in await table.ledger.rules("default", revoked=True)]
    assert voted.remembered == rule.id
    assert {name: rule.rule[name] for name in ("effect", "door", "agent", "runner", "workspace", "digest")} == {
        "effect": "allow", "door": "workspace", "agent": "shell", "runner": "local", "workspace": "/w",
        "digest": digest(files())}
    kept = [msgspec.json.decode(one.body)["meta"] for one in await table.ledger.audit("default", 0, 1_000)]
    (recorded,) = [meta for meta in kept if meta.get("change") == "remembered"]
    assert recorded.items() >= bound(RuleRecord(rule=rule)).items(), "the rule's row is on record (H-5)"


async def test_the_same_files_are_not_asked_about_again_and_others_are() -> None:
    table = Table()
    first = await table.execute()
    await finds(table, first.target.session_id, files())
    await table.vote((await asked(table)).id, "grant")

    again = await table.execute(target=Target(agent_id="shell", session_key="agent:shell:other"))
    await finds(table, again.target.session_id, files())
    assert await table.ledger.approvals("default", "pending", None, 10) == []
    assert table.wire.last("control.session.open").payload.trusted_files == digest(files())
    assert "workspace_allowed" in await table.actions()

    changed = await table.execute(target=Target(agent_id="shell", session_key="agent:shell:third"))
    await finds(table, changed.target.session_id, files("two"))
    assert (await asked(table)).digest == digest(files("two"))


async def test_files_changed_between_the_grant_and_the_start_are_asked_about_again() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await finds(table, session_id, files())
    first = await asked(table)
    await table.vote(first.id, "grant")
    await finds(table, session_id, files("two"))
    second = await asked(table)
    assert (second.id, second.digest) != (first.id, first.digest)
    await table.vote(second.id, "grant")
    assert table.wire.last("control.session.open").payload.trusted_files == digest(files("two"))


async def test_a_revoked_grant_is_requested_again_even_in_its_session() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await finds(table, session_id, files())
    voted = await table.vote((await asked(table)).id, "grant")
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    record = await table.ledger.rule(voted.remembered, "default")
    assert record is not None
    await table.ledger.commit(WriteBatch([Put(RuleRecord(rule=msgspec.structs.replace(record.rule,
                                                                                      revoked_at="now")))]))
    await table.engine.learn_rules()
    await table.execute("more", target=Target(session_id=session_id))
    assert table.wire.last("control.session.open").payload.trusted_files is None
    await finds(table, session_id, files())
    assert (await asked(table)).digest == digest(files())


@pytest.mark.parametrize("moment", ["queued", "dispatched"])
async def test_a_denial_ends_the_command_with_a_sentence(moment: str) -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    opened, prompt = table.wire.last("control.session.open"), table.wire.last("control.prompt.request")
    refused = p.SessionError(error_code=Code.SESSION_NOT_FOUND, message="It is not open.", fatal=False)
    await table.send(session_id, "session.error", p.SessionError(
        error_code=Code.WORKSPACE_NOT_TRUSTED, message=SENTENCE, fatal=True, workspace_files=msgspec.Raw(files())),
                     in_reply_to=opened.message_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="the agent could not be started"))
    if moment == "queued":
        await table.send(session_id, "session.error", refused, in_reply_to=prompt.message_id)
    await table.vote((await asked(table)).id, "deny")
    if moment == "dispatched":
        await table.send(session_id, "session.error", refused, in_reply_to=prompt.message_id)
    ended = await now(table, command)
    assert (ended.state, ended.error.code) == ("canceled", "Forbidden")
    assert ended.error.message == "files in the workspace configure its agent, and user:owner did not allow it"
    assert await table.ledger.rules("default", revoked=True) == []


async def test_an_unanswered_question_ends_the_command() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await finds(table, session_id, files())
    table.clock.advance(table.limits.approval_ttl_ms)
    await (await table.lane(session_id)).call(ClockTicked())
    ended = await now(table, command)
    assert (ended.state, ended.error.message) == (
        "canceled", "files in the workspace configure its agent, and no one allowed it in time")


async def test_a_canceled_command_ends_its_question() -> None:
    table = Table()
    command = await table.execute()
    await finds(table, command.target.session_id, files())
    await table.cancel(command.id)
    assert await table.ledger.approvals("default", "pending", None, 10) == []
    assert (await now(table, command)).state == "canceled"


async def test_a_rule_may_deny_or_allow_by_the_files() -> None:
    deny = Rule(name="no plugins", effect="deny", door="workspace", workspace_files=".opencode/*", reason="ask Ann")
    allow = Rule(name="servers only", effect="allow", door="workspace", workspace_files=[".mcp.json"])
    table = Table(RuleSet([deny, allow]))
    denied = await table.execute()
    await finds(table, denied.target.session_id, files("one", ".mcp.json", ".opencode/plugin/x.js"))
    ended = await now(table, denied)
    assert (ended.state, ended.error.code) == ("failed", Code.WORKSPACE_NOT_TRUSTED)
    assert "no plugins" in ended.error.message
    assert "ask Ann" in ended.error.message

    allowed = await table.execute(target=Target(agent_id="shell", session_key="agent:shell:other"))
    await finds(table, allowed.target.session_id, files("one", ".mcp.json"))
    assert table.wire.last("control.session.open").payload.trusted_files == digest(files("one", ".mcp.json"))

    both = await table.execute(target=Target(agent_id="shell", session_key="agent:shell:third"))
    await finds(table, both.target.session_id, files("one", ".mcp.json", ".qwen/settings.json"))
    assert (await asked(table)).command_id == both.id


async def test_a_broad_allow_rule_without_a_door_does_not_trust_a_repository() -> None:
    table = Table(RuleSet([Rule(name="anything", effect="allow", agent="shell")]))
    command = await table.execute()
    await finds(table, command.target.session_id, files())
    assert (await asked(table)).command_id == command.id


async def test_a_quorum_is_required_at_each_start() -> None:
    rule = Rule(name="two of us", effect="ask", door="workspace", required=2, groups=[QuorumGroup(role="owner")])
    table = Table(RuleSet([rule]))
    command = await table.execute()
    await finds(table, command.target.session_id, files())
    await table.vote((await asked(table)).id, "grant")
    assert (await asked(table)).required == 2
    assert await table.ledger.rules("default", revoked=True) == []


async def test_a_vote_with_always_is_refused() -> None:
    table = Table()
    command = await table.execute()
    await finds(table, command.target.session_id, files())
    with pytest.raises(Problem, match="remembered by itself"):
        await table.engine.vote(OWNER, (await asked(table)).id,
                                GrantBody(decision="grant", remember=Remembering(scope="rule")), remember)


async def test_the_question_survives_a_restart_of_the_gateway() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await finds(table, session_id, files())
    table.begin()
    approval = await asked(table)
    await table.vote(approval.id, "grant")
    await table.reattach(session_id, 2)
    assert table.wire.last("control.session.open").payload.trusted_files == digest(files())


async def test_unreadable_files_fail_the_command_with_the_runners_sentence() -> None:
    table = Table()
    command = await table.execute()
    await finds(table, command.target.session_id, b'{"agent_id": 1}')
    ended = await now(table, command)
    assert (ended.state, ended.error.code, ended.error.message) == (
        "failed", Code.WORKSPACE_NOT_TRUSTED, SENTENCE)


# --- the same files in two sessions ---
async def both_ask(table: Table) -> tuple[Any, Any]:
    """Two commands in sessions of one directory, each of which found the same files before a person answered."""
    first = await table.execute()
    await finds(table, first.target.session_id, files())
    second = await table.execute(target=Target(agent_id="shell", session_key="agent:shell:other"))
    await finds(table, second.target.session_id, files())
    assert len(await table.ledger.approvals("default", "pending", None, 10)) == 2
    return first, second


async def test_one_grant_releases_every_session_that_waits_for_the_same_files() -> None:
    table = Table()
    first, second = await both_ask(table)
    asked_first = (await table.ledger.approvals("default", "pending", None, 10))[0].approval
    await table.vote(asked_first.id, "grant")
    await settled(table, second.target.session_id)
    assert await table.ledger.approvals("default", "pending", None, 10) == []
    opened = [frame for frame in table.wire.sent if frame.type == "control.session.open"]
    assert {frame.session_id for frame in opened if frame.payload.trusted_files == digest(files())} == {
        first.target.session_id, second.target.session_id}
    assert "workspace_allowed" in await table.actions()


async def test_one_denial_ends_one_command_and_keeps_the_other_question() -> None:
    table = Table()
    await both_ask(table)
    [one, other] = [record.approval for record in await table.ledger.approvals("default", "pending", None, 10)]
    await table.vote(one.id, "deny")
    assert (await asked(table)).id == other.id


# --- a compaction starts an agent, too ---
COMPACTS = {"context_compaction": True, "adapter_type": "process", "permission": "asks"}


async def rests(table: Table) -> str:
    """A session with a conversation, whose agent has ended."""
    command = await table.execute()
    session_id = command.target.session_id
    await table.send(session_id, "session.capabilities", p.Capabilities(dps_version="1.0.0", features=COMPACTS))
    await table.started(session_id)
    await table.ended(session_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    return str(session_id)


async def compaction_finds(table: Table, session_id: str, raw: bytes) -> None:
    """Ask for a compaction, whose agent the runner does not start."""
    await table.engine.sessions.compact(OWNER, session_id, "keep names", remember)
    opened, request = table.wire.last("control.session.open"), table.wire.last("control.session.compact")
    await table.send(session_id, "session.error", p.SessionError(
        error_code=Code.WORKSPACE_NOT_TRUSTED, message=SENTENCE, fatal=True, workspace_files=msgspec.Raw(raw)),
                     in_reply_to=opened.message_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="the agent could not be started"))
    await table.send(session_id, "session.error", p.SessionError(
        error_code=Code.SESSION_NOT_FOUND, message="The session is not open on this runner.", fatal=False),
                     in_reply_to=request.message_id)


def requests(table: Table) -> list[Any]:
    return [frame.payload for frame in table.wire.sent if frame.type == "control.session.compact"]


async def failures(table: Table, session_id: str) -> list[str]:
    events = [msgspec.json.decode(one.body)
              for one in await table.ledger.events("default", f"s/{session_id}", 0, 1_000)]
    return [one["message"] for one in events if one.get("code") == "CompactionFailed"]


async def test_a_compaction_asks_the_same_question_and_continues_after_a_grant() -> None:
    table = Table()
    session_id = await rests(table)
    await compaction_finds(table, session_id, files())
    approval = await asked(table)
    assert (approval.workspace_files, approval.command_id, approval.digest) == (True, None, digest(files()))
    assert approval.requested_by == OWNER.actor
    assert await failures(table, session_id) == []
    voted = await table.vote(approval.id, "grant")
    assert voted.remembered is not None
    assert table.wire.last("control.session.open").payload.trusted_files == digest(files())
    [first, again] = requests(table)
    assert (again.request_id, again.instructions) == (first.request_id, "keep names")
    await table.send(session_id, "session.capabilities", p.Capabilities(dps_version="1.0.0", features=COMPACTS))
    await table.send(session_id, "session.compacted", p.Compacted(
        request_id=again.request_id, trigger="requested", summary="names", previous_token_count=9,
        current_token_count=3), in_reply_to=table.wire.last("control.session.compact").message_id)
    assert "compact" in await table.actions()
    later = await table.execute("more", target=Target(session_id=session_id))
    assert (await now(table, later)).state == "dispatched"


async def test_a_compaction_continues_by_itself_if_the_files_are_trusted() -> None:
    table = Table()
    session_id = await rests(table)
    await compaction_finds(table, session_id, files())
    await table.vote((await asked(table)).id, "grant")
    other = await table.execute(target=Target(agent_id="shell", session_key="agent:shell:other"))
    await finds(table, other.target.session_id, files())
    assert await table.ledger.approvals("default", "pending", None, 10) == []

    await table.send(session_id, "session.capabilities", p.Capabilities(dps_version="1.0.0", features=COMPACTS))
    await table.send(session_id, "session.compacted", p.Compacted(
        request_id=requests(table)[-1].request_id, trigger="requested", summary="names", previous_token_count=9,
        current_token_count=3), in_reply_to=table.wire.last("control.session.compact").message_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    before = len(requests(table))
    await compaction_finds(table, session_id, files())
    assert len(requests(table)) == before + 2, "refused once, and sent again with the digest that a rule allows"
    assert table.wire.last("control.session.open").payload.trusted_files == digest(files())


@pytest.mark.parametrize("how", ["denied", "expired"])
async def test_a_compaction_fails_with_a_sentence_after_a_denial(how: str) -> None:
    table = Table()
    session_id = await rests(table)
    await compaction_finds(table, session_id, files())
    if how == "denied":
        await table.vote((await asked(table)).id, "deny")
    else:
        table.clock.advance(table.limits.approval_ttl_ms)
        await (await table.lane(session_id)).call(ClockTicked())
    why = "user:owner did not allow it" if how == "denied" else "no one allowed it in time"
    assert await failures(table, session_id) == [f"files in the workspace configure its agent, and {why}"]
    assert len(requests(table)) == 1
    assert (await table.lane(session_id)).lane.state.compacting is None


async def test_a_deny_rule_ends_a_compaction_with_its_reason() -> None:
    table = Table(RuleSet([Rule(name="no hooks", effect="deny", door="workspace", reason="ask Ann")]))
    session_id = await rests(table)
    await compaction_finds(table, session_id, files())
    [sentence] = await failures(table, session_id)
    assert "no hooks denies it, ask Ann" in sentence
    assert (await table.lane(session_id)).lane.state.compacting is None


async def test_a_waiting_compaction_survives_a_restart_of_the_gateway() -> None:
    table = Table()
    session_id = await rests(table)
    await compaction_finds(table, session_id, files())
    table.begin()
    await table.reattach(session_id, 9)
    await table.vote((await asked(table)).id, "grant")
    assert [one.instructions for one in requests(table)] == ["keep names"] * len(requests(table))
    assert len(requests(table)) >= 1
    assert table.wire.last("control.session.open").payload.trusted_files == digest(files())
