"""`interlock audit list` and `audit show` (Y-9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.scripted import answer, problem
from cli.tasks.test_follower import approval
from interlock.cli.audit import audit_list
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble
from interlock.protocol.clock import parse_iso

pytestmark = pytest.mark.req("U-5", "Y-9")
AT = "2026-11-21T10:00:00.000Z"


def line(seq: int, **record: Any) -> dict[str, Any]:
    return {"seq": seq, "hash": "ab" * 32, "record": {
        "at": "2026-11-21T10:00:00.000Z", "who": {"id": "user:ann\x1b[2J", "role": "owner"}, "action": "vote",
        "meta": {"decision": "grant"}, "approval_id": "apr_1", "seq": seq, **record}}


def page(*seqs: int, more: str = "") -> Any:
    return answer({"items": [line(seq) for seq in seqs], "next_cursor": more or "c", "has_more": bool(more)})


def test_records_are_listed_across_short_and_empty_pages(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, where = scripted({"GET /v1/audit": [page(9, more="c9"), page(more="c5"), page(2)]})
    assert audit_list.records(who="ann", action="vote", since="2026-11-20", until="2026-11-23T08:00:00+01:00",
                              where=where) == ExitStatus.DONE
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["RECORD", "WHEN", "WHO", "ACTION", "STEP", "ABOUT"]
    assert [row[0] for row in rows[1:]] == ["9", "2"]
    assert rows[1][-3:] == ["vote", "grant", "apr_1"]
    asked = [dict(request.url.params) for request in script.asked]
    assert asked[0] == {"order": "newest", "actor": "ann", "action": "vote", "limit": "50",
                        "from": "2026-11-20T00:00:00.000Z", "to": "2026-11-23T07:00:00.000Z"}
    assert [one.get("since") for one in asked] == [None, "c9", "c5"]


def test_a_digest_is_shown_by_its_beginning(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    login = line(4, approval_id=None, meta={"row": f"browser_login/{'0a' * 32}"})
    script, where = scripted({"GET /v1/audit": [answer({"items": [login], "next_cursor": "c", "has_more": False})]})
    assert audit_list.records(where=where) == ExitStatus.DONE
    assert capsys.readouterr().out.splitlines()[1].split()[-1] == "browser_login/0a0a0a0a0a0a…"
    assert len(script.asked) == 1


def test_no_more_records_are_fetched_than_shown(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, where = scripted({"GET /v1/audit": [page(9, more="c9"), page(8, more="c8")]})
    assert audit_list.records(limit=2, json=True, where=where) == ExitStatus.DONE
    assert [one["seq"] for one in json.loads(capsys.readouterr().out)["items"]] == [9, 8]
    assert [request.url.params["limit"] for request in script.asked] == ["2", "1"]


def test_an_empty_result_is_reported_and_mistakes_give_one_sentence(
    scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _, where = scripted({"GET /v1/audit": [page()]})
    assert audit_list.records(since="2h", where=where) == ExitStatus.DONE
    assert "no record of that kind" in capsys.readouterr().err
    for wrong in ({"since": "yesterday"}, {"until": "2026-99-01"}, {"limit": 0}):
        with pytest.raises(Trouble) as caught:
            audit_list.records(**wrong, where=where)
        assert ("--on yesterday" in caught.value.remedy) == ("since" in wrong)


def test_one_record_is_shown_in_full_with_its_personal_values(
    scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = {**line(7), "personal": {"comment": ["00", "checked\x1b[2J"]}}
    _, where = scripted({"GET /v1/audit/records/7": [answer(shown)],
                         "GET /v1/audit/records/8": [problem(404, "NotFound", "The audit log has no record 8.")]})
    assert audit_list.show(7, where=where) == ExitStatus.DONE
    out = capsys.readouterr().out
    assert '"action": "vote"' in out
    assert "comment: checked" in out
    assert "\x1b" not in out
    with pytest.raises(Trouble, match="no record 8"):
        audit_list.show(8, where=where)


@pytest.mark.req("Y-8")
def test_a_subject_is_named_by_a_unique_prefix(scripted: Any) -> None:
    whole = "cmd_01M84Q0APY7DHTVEAA20TMK8N5"
    command = {"id": whole, "type": "execute", "state": "queued", "target": {"agent_id": "shell"},
               "tenant_id": "default", "actor": {"type": "user", "id": "ann"}, "created_at": AT, "updated_at": AT,
               "priority": 0, "timeout_ms": 1, "idempotency_key": "k"}
    script, where = scripted({"GET /v1/commands": [answer({"items": [command], "next_cursor": None,
                                                           "has_more": False})],
                              "GET /v1/audit": [page(2), page(2)]})
    audit_list.records(command="01M84", where=where)
    audit_list.records(command=whole, where=where)
    paths = [request.url.path for request in script.asked]
    assert paths == ["/v1/commands", "/v1/audit", "/v1/audit"], "a whole id is not looked up"
    assert {request.url.params.get("command") for request in script.asked[1:]} == {whole}
    with pytest.raises(Trouble, match="There is no task 'zz'"):
        audit_list.records(command="zz", where=where)


@pytest.mark.req("Y-9")
def test_one_line_shows_who_allowed_what_on_a_day(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    whole = "apr_01M84Q0APY7DHTVEAA20TMK8N5"
    listed = answer({"items": [line(9, approval_id=whole), line(8, approval_id="apr_gone")], "next_cursor": "c",
                     "has_more": False})
    asked = approval(id=whole, subject={"tool_name": "Bash", "title": "", "input": {"command": "rm -rf build"}})
    script, where = scripted({"GET /v1/audit": [listed], f"GET /v1/approvals/{whole}": [answer(asked)]})
    assert audit_list.records(on="2026-11-21", action="vote", where=where) == ExitStatus.DONE
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["RECORD", "AT", "WHO", "ACTION", "STEP", "ABOUT", "WHAT"]
    assert first.endswith(f"vote    grant  {whole}  $ rm -rf build")
    assert second.split()[-1] == "apr_gone", "an approval that cannot be read is named by its id"
    query = dict(script.asked[0].url.params)
    assert parse_iso(query["to"]) - parse_iso(query["from"]) == 24 * 3_600_000


@pytest.mark.req("Y-9", "U-5")
def test_an_action_that_differs_from_the_recorded_one_is_not_named(
    scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = {"tool_name": "Bash", "title": "", "input": {"command": "rm -rf build"}}
    asked = {name: approval(id=name, subject=subject) for name in ("apr_same", "apr_edited")}
    listed = answer({"items": [line(9, approval_id="apr_same", meta={"digest": asked["apr_same"]["digest"]}),
                               line(8, approval_id="apr_edited", meta={"digest": "ab" * 32})],
                     "next_cursor": "c", "has_more": False})
    _, where = scripted({"GET /v1/audit": [listed],
                         **{f"GET /v1/approvals/{name}": [answer(given)] for name, given in asked.items()}})
    assert audit_list.records(on="2026-11-21", where=where) == ExitStatus.DONE
    _, same, edited = capsys.readouterr().out.splitlines()
    assert same.endswith("$ rm -rf build")
    assert edited.endswith(audit_list.NOT_ON_RECORD)


def test_a_day_and_a_start_exclude_each_other(scripted: Any) -> None:
    _, where = scripted({})
    with pytest.raises(Trouble, match="--on excludes --since and --until"):
        audit_list.records(on="today", since="2h", where=where)
