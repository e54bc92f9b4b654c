"""`interlock prune`: what is counted, what is deleted, and which spans are invalid (G-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.scripted import answer, problem
from interlock.cli.exit_status import ExitStatus
from interlock.cli.storage import prune
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("G-5")
DAY_MS = 24 * 3_600_000
GONE = {"dry_run": False, "before": "2026-11-01T00:00:00.000Z", "objects": 3, "answers": 2, "tenants": [
    {"tenant_id": "default", "sessions": 4, "events": 100, "feed": 20, "files": 5, "deliveries": 6},
    {"tenant_id": "other\x1b[2J", "sessions": 1}]}


@pytest.fixture
def asked(scripted: Any) -> Any:
    """Prune against a gateway that gives this answer; what was asked of it."""

    def ask(given: Any = None, **options: Any) -> tuple[int, list[dict[str, Any]]]:
        script, where = scripted({"POST /v1/prune": [given or answer(GONE)]})
        status = prune.prune(**options, where=where)
        assert all(request.headers["Idempotency-Key"] for request in script.asked)
        return status, [json.loads(request.content) for request in script.asked]

    return ask


def test_the_deletions_of_each_tenant_are_printed(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, [body] = asked(older_than="8w")
    captured = capsys.readouterr()
    assert (status, body) == (ExitStatus.DONE, {"older_than_ms": 56 * DAY_MS})
    rows = [line.split() for line in captured.out.splitlines()]
    assert rows[0] == ["TENANT", "SESSIONS", "EVENTS", "FILES", "DELIVERIES"]
    assert rows[1] == ["default", "4", "120", "5", "6"]
    assert "\x1b" not in captured.out
    assert "forgotten: what ended before 2026-11-01" in captured.err
    assert "3 objects of files, 2 old answers" in captured.err


def test_a_dry_run_only_counts_and_the_default_is_thirty_days(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, [body] = asked(answer({**GONE, "dry_run": True}), dry_run=True)
    assert body == {"older_than_ms": 30 * DAY_MS, "dry_run": True}
    assert "would be forgotten" in capsys.readouterr().err


def test_json_is_the_gateways_own_document(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked(json=True)
    assert json.loads(capsys.readouterr().out) == GONE


@pytest.mark.parametrize(("span", "sentence"), [
    ("5m", "not a span of time"), ("", "not a span of time"), ("d", "not a span of time"),
    ("-1d", "not a span of time"),
    ("999999d", "not a span of time"), ("٣d", "not a span of time"), ("0h", "younger than an hour"),
    ("99999w", "Nothing is as old")])
def test_an_invalid_span_is_reported_before_a_request(asked: Any, span: str, sentence: str) -> None:
    with pytest.raises(Trouble, match=sentence) as trouble:
        asked(older_than=span)
    assert trouble.value.code == "Usage"


def test_a_refusal_of_the_gateway_is_printed(asked: Any) -> None:
    with pytest.raises(Trouble) as trouble:
        asked(problem(403, "Forbidden", "this role may not"))
    assert trouble.value.code == "Forbidden"
