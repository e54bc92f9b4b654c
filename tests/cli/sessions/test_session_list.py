"""`interlock sessions`: what a terminal of any width shows, and what a pipe gets (V-1, Y-8)."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from interlock.cli.display import values
from interlock.cli.sessions.session_list import context, cost, session_table
from interlock.protocol.clock import iso
from interlock.protocol.resources import Session

pytestmark = [pytest.mark.req("V-1", "N-3", "Y-8")]
RUN = "7a84fc2a-2a23-4901-8f56-4fee1da43ecc"
CHAT = "2cd0382f-3536-4d6a-a44e-9b2142ef8af0"
GROUP = "agent:claude:telegram:group:-1001234567890"


NOW_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def _still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time at which the list is looked at: ages do not grow while the other tests run."""
    monkeypatch.setattr(values.time, "time", lambda: NOW_MS / 1000)


def session(session_id: str = RUN, key: str = f"agent:own:run:{RUN}", **fields: Any) -> Session:
    now = iso(NOW_MS - 12 * 60_000)
    return Session(**{"session_id": session_id, "session_key": key, "tenant_id": "default", "agent_id": "own",
                      "state": "idle", "created_at": now, "updated_at": now, "context_window": 200_000, **fields})


FULL = [
    session(CHAT, GROUP, agent_id="claude", state="waiting_approval", model="anthropic/claude-opus-4-5",
            context_tokens=145_234, compactions=3, runner_id="build-host", workspace="/srv/work/deeply/nested/project",
            title="release", entry={"label": "release"}),
    session(context_tokens=45_000, context_estimated=True, runner_id="build-host", workspace="/srv/work/other"),
    session("2cd0ffff-0000-4000-8000-000000000000", "agent:own:dm:김철수", state="running"),
]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 120, 200])
def test_a_list_fits_the_terminal(width: int) -> None:
    lines = session_table(FULL, width).splitlines()
    assert len(lines) == 4
    assert max(map(cell_len, lines)) <= max(width, 30)
    assert lines[0].startswith("ID ")
    assert lines[1].startswith("2cd0382f "), "each can be named"
    assert "release" in lines[1]


def test_eighty_columns_show_state_age_title_window_and_compactions() -> None:
    header, first, second, third = session_table(FULL, 80).splitlines()
    assert header.split() == ["ID", "STATE", "AGE", "TITLE", "CONTEXT", "COMP"]
    assert " ".join(first.split()) == "2cd0382f waiting for you 12 min release 145k/200k 73% 3"
    assert " ".join(second.split()) == "7a84fc2a idle 12 min agent:own:run:7a84fc2a… ~45k/200k 22% -"
    assert third.split()[-2:] == ["-", "-"]


def test_a_session_without_a_title_shows_its_key_and_a_long_title_is_shortened() -> None:
    named, other = session_table([session(title="Make the release\nand more " + "x" * 90), session(CHAT, GROUP)],
                                 100).splitlines()[1:]
    assert "Make the release and more" in named
    assert "…" in named
    assert GROUP in other


def test_a_wide_terminal_shows_more_columns() -> None:
    header = session_table(FULL, 150).splitlines()[0].split()
    assert header[:7] == ["ID", "STATE", "AGE", "TITLE", "CONTEXT", "COMP", "KEY"]
    assert "LOST" not in session_table(FULL, 300), "a column that no session fills is left out"


def test_a_pipe_gets_every_column_in_full() -> None:
    text = session_table(FULL, None)
    for whole in (CHAT, GROUP, f"agent:own:run:{RUN}", "anthropic/claude-opus-4-5", "/srv/work/deeply/nested/project",
                  "release", "LOST"):
        assert whole in text


def test_short_ids_are_as_long_as_needed() -> None:
    twins = [session(f"2cd0382f-{number}000-4000-8000-000000000000", f"agent:own:dm:p{number}") for number in (1, 2)]
    first, second = session_table(twins, 80).splitlines()[1:]
    assert "2cd0382f-1" in first
    assert "2cd0382f-2" in second


@pytest.mark.parametrize(("fields", "shown"), [
    ({}, "-"), ({"context_tokens": 0}, "-"), ({"context_tokens": 900}, "900/200k 0%"),
    ({"context_tokens": 45_234}, "45.2k/200k 23%"),
    ({"context_tokens": 999_600, "context_window": 1_047_576}, "1M/1M 95%"),
    ({"context_tokens": 12_345_678, "context_window": None, "context_estimated": True}, "~12.3M"),
])
def test_the_context_window_is_formatted_for_people(fields: dict[str, Any], shown: str) -> None:
    assert context(session(**fields)) == shown


@pytest.mark.parametrize(("cost_usd", "shown"), [
    (0.0, "-"), (0.004, "<$0.01"), (0.005, "$0.01"), (0.66, "$0.66"), (1234.5, "$1,234.50"),
])  # fmt: skip
def test_a_sessions_cost_is_shown(cost_usd: float, shown: str) -> None:
    assert cost(session(cost_usd=cost_usd)) == shown
    header = session_table([session(cost_usd=cost_usd)], 120).splitlines()[0].split()
    assert ("COST" in header) is (cost_usd > 0), "a column that no session fills is left out"
