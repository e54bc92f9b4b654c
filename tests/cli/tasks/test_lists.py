"""`interlock approvals`: the outcome of each, in plain words (Y-17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.scripted import Script, answer, link_to
from cli.tasks.test_follower import approval
from interlock.cli.config.place import Where
from interlock.cli.link import gateway_link
from interlock.cli.tasks.lists import approvals

pytestmark = pytest.mark.req("Y-17")


@pytest.mark.parametrize(("state", "shown"), [
    ("consumed", "allowed (used)"), ("void", "withdrawn (void)"), ("denied", "denied"), ("pending", "waiting for you"),
])
def test_the_list_shows_an_approvals_outcome_and_the_tool_of_its_request(
    state: str, shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = answer({"approvals": [approval(state)], "next_cursor": None, "has_more": False})
    script = Script({"GET /v1/approvals": [listed]})
    monkeypatch.setattr(gateway_link, "GatewayLink", lambda *_, **__: link_to(script, tmp_path))
    assert approvals(all_=True, where=Where(state=tmp_path)) == 0
    assert f"  {shown}  " in capsys.readouterr().out
