"""`interlock usage` (J-13)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.scripted import answer
from interlock.cli.exit_status import ExitStatus
from interlock.cli.operations import usage_verb
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("J-13")
FIGURES = {"turns": 1_200, "estimated_turns": 0, "input_tokens": 34_000, "output_tokens": 21, "total_tokens": 34_021,
           "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": "1.50"}


def found(*items: dict[str, Any], by: tuple[str, ...] = ("day", "model"), left_out: int = 0, **total: Any) -> Any:
    return answer({"from": "2026-11-01", "to": "2026-11-25", "by": by, "items": [{**FIGURES, **one} for one in items],
                   "left_out": left_out, "total": {**FIGURES, **total}})


@pytest.fixture
def scripted(scripted: Any) -> Any:
    """A gateway with this report."""
    return lambda report: scripted({"GET /v1/usage": [report]})


def test_usage_is_a_table_with_a_total(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, where = scripted(found({"day": "2026-11-25", "model": None}, {"day": "2026-11-24", "model": "op\x1b[2Jus"},
                                   left_out=3, estimated_turns=2))
    assert usage_verb.report(by="day,model", from_="2026-11-01", person="user:ann", where=where) == ExitStatus.DONE
    assert dict(script.asked[0].url.params) == {"by": "day,model", "from": "2026-11-01", "person": "user:ann",
                                                "limit": "100"}
    printed = capsys.readouterr()
    rows = [row.split() for row in printed.out.splitlines()]
    assert rows[0] == ["DAY", "MODEL", "TURNS", "TOKENS", "IN", "OUT", "FROM", "CACHE", "COST"]
    assert rows[1] == ["2026-11-25", "unknown", "1,200", "34,000", "21", "$1.50"]
    assert rows[3][0] == "total"
    assert "\x1b" not in printed.out
    assert "2 turns ended without figures" in printed.err
    assert "and 3 lines more, with --limit" in printed.err


def test_a_table_for_a_spreadsheet_contains_no_formula(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, where = scripted(found({"day": "2026-11-25", "model": '=cmd|"x"'}))
    assert usage_verb.report(by="day,model", csv_=True, where=where) == ExitStatus.DONE
    head, line = capsys.readouterr().out.splitlines()
    assert head == ("day,model,turns,estimated_turns,input_tokens,output_tokens,total_tokens,cache_read_tokens,"
                    "cache_write_tokens,cost_usd")
    assert line == '2026-11-25,"\'=cmd|""x""",1200,0,34000,21,34021,0,0,1.50'


def test_json_is_the_answer_itself_and_an_empty_result_is_reported(
    scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _, where = scripted(found({"day": "2026-11-25"}, by=("day",)))
    assert usage_verb.report(json=True, where=where) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out)["items"][0]["cost_usd"] == "1.50"
    _, where = scripted(found(by=("day",)))
    assert usage_verb.report(where=where) == ExitStatus.DONE
    assert "nothing was used from 2026-11-01 to 2026-11-25" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [{"by": "hour"}, {"limit": 0}, {"json": True, "csv_": True}])
def test_mistakes_give_one_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises(Trouble):
        usage_verb.report(**wrong)
