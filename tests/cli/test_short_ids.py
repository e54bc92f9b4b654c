"""`--runner`: by an id, a name, or a unique beginning of either (Y-10); a session by its id or key (R-2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.scripted import Script, answer, link_to
from interlock.cli.short_ids import approval, approval_to_decide, live_command, pick_runner, pick_session
from interlock.cli.verb_error import Trouble
from interlock.protocol.resources import Node, Session

pytestmark = pytest.mark.req("Y-10")


def node(runner_id: str, name: str) -> Node:
    return Node(node_id=runner_id, device_name=name, status="online", last_seen="", capabilities=[],
                active_sessions_count=0, config_versions={})


NODES = [node("local", "laptop"), node("rnr_01AAAA", "build-1"), node("rnr_01ABBB", "build-10"),
         node("rnr_02CCCC", "Desk"), node("rnr_03DDDD", "gpu"), node("rnr_04EEEE", "gpu")]


@pytest.mark.parametrize(("text", "found"), [
    ("local", "local"), ("laptop", "local"), ("lap", "local"), ("rnr_01AAAA", "rnr_01AAAA"), ("01ab", "rnr_01ABBB"),
    ("desk", "rnr_02CCCC"), ("rnr_02", "rnr_02CCCC"), (" Desk ", "rnr_02CCCC"),
])
def test_a_runner_is_found(text: str, found: str) -> None:
    assert pick_runner(text, NODES).node_id == found


def test_an_exact_name_takes_precedence_over_a_longer_one() -> None:
    assert pick_runner("build-1", NODES).node_id == "rnr_01AAAA"


@pytest.mark.parametrize(("text", "sentence"), [
    ("build", "--runner 'build' could be any of 2 runners: rnr_01AAAA (build-1), rnr_01ABBB (build-10)."),
    ("gpu", "--runner 'gpu' could be any of 2 runners: rnr_03DDDD (gpu), rnr_04EEEE (gpu)."),
    ("rnr_", "--runner 'rnr_' could be any of 5 runners: rnr_01AAAA (build-1), rnr_01ABBB (build-10), "
             "rnr_02CCCC (Desk), rnr_03DDDD (gpu), rnr_04EEEE (gpu)."),
    ("tower", "There is no runner 'tower'."), ("  ", "--runner is empty."),
])
def test_an_ambiguous_or_unknown_name_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Trouble) as refused:
        pick_runner(text, NODES)
    assert refused.value.sentence == sentence


def session(session_id: str, key: str, created_at: str) -> Session:
    return Session(session_id=session_id, session_key=key, tenant_id="default", agent_id=key.split(":")[1],
                   state="idle", created_at=created_at, updated_at=created_at)


SESSIONS = [session("aa01", "agent:goose:kill-me", "2026-01-01"), session("aa02", "agent:goose:kill-me", "2026-01-02"),
            session("bb01", "agent:goose:cron:aa0", "2026-01-03"), session("cc01", "agent:goose:main", "2026-01-04"),
            session("cc02", "agent:claude:main", "2026-01-05")]


@pytest.mark.req("R-2")
@pytest.mark.parametrize(("text", "found"), [
    ("kill-me", "aa02"), ("agent:goose:kill-me", "aa02"), ("AGENT:Goose:kill-me", "aa02"),
    ("cron:aa0", "bb01"), ("agent:claude:main", "cc02"), ("aa01", "aa01"), ("bb", "bb01"), ("@last", "cc02"),
])
def test_a_session_is_found_by_its_user_given_name(text: str, found: str) -> None:
    assert pick_session(text, SESSIONS).session_id == found


@pytest.mark.req("R-2")
@pytest.mark.parametrize(("text", "sentence"), [
    ("main", "'main' names sessions of 2 agents: agent:claude:main, agent:goose:main."),
    ("kill", "There is no session 'kill'."), ("two words", "There is no session 'two words'."),
    ("", "An empty session id names nothing."),
    ("x" * 5_000, f"There is no session '{'x' * 80}…'."),
])
def test_a_name_of_several_agents_or_none_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Trouble) as refused:
        pick_session(text, SESSIONS)
    assert refused.value.sentence == sentence


@pytest.mark.anyio
async def test_last_without_a_live_object_is_reported(tmp_path: Path) -> None:
    ended = {"id": "cmd_a", "created_at": "", "updated_at": "", "tenant_id": "t", "actor": {"type": "user", "id": "me"},
             "type": "execute", "target": {"agent_id": "claude"}, "state": "succeeded", "timeout_ms": 1}
    script = Script({"GET /v1/commands": [answer({"items": [ended], "next_cursor": None})],
                     "GET /v1/approvals": [answer({"items": [], "next_cursor": None})]})
    async with link_to(script, tmp_path) as link:
        with pytest.raises(Trouble) as no_task:
            await live_command(link, "@last")
        with pytest.raises(Trouble) as none_waits:
            await approval(link, "@last")
        with pytest.raises(Trouble) as nothing_to_decide:
            await approval_to_decide(link, "@last", None, blind=False)
    assert no_task.value.line() == ("error[NotFound]: No task is at work: @last is the newest that has not ended. "
                                    "See: interlock tasks")
    assert none_waits.value.line() == ("error[NotFound]: No approval waits: @last is the newest that does. "
                                       "See: interlock approvals")
    assert nothing_to_decide.value.line() == none_waits.value.line()
