"""`interlock doctor` reports approvals that no webhook or notice could deliver (O-11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.scripted import Script, answer, link_to, problem
from interlock.channels.chat.places import PlacesFile
from interlock.cli.doctor import chats, ways_to_approvers

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-11")]


async def test_a_way_with_lost_notices_is_a_problem_with_the_verb_that_says_why(tmp_path: Path) -> None:
    listed = {"webhooks": [{"name": "ops", "host": "h", "waiting": 2, "dead": 0},
                           {"name": "phone", "kind": "ntfy", "host": "ntfy.sh", "waiting": 0, "dead": 3}]}
    async with link_to(Script({"GET /v1/webhooks": [answer(listed)]}), tmp_path) as link:
        good, bad = await ways_to_approvers(link)
    assert (good.check, good.ok, good.found) == ("webhook ops", True, "none is lost, 2 on the way.")
    assert (bad.check, bad.ok, bad.found, bad.remedy) == (
        "ntfy phone", False, "3 approvals could not be sent.", "See why with: interlock webhooks dead")


async def test_a_key_that_may_not_see_them_is_no_problem(tmp_path: Path) -> None:
    refused = problem(403, "Forbidden", "An administrator may.")
    async with link_to(Script({"GET /v1/webhooks": [refused]}), tmp_path) as link:
        assert await ways_to_approvers(link) == []


@pytest.mark.req("O-13", "O-12")
def test_an_approval_that_no_chat_took_is_a_problem_until_it_is_decided(tmp_path: Path) -> None:
    assert list(chats(tmp_path)) == []
    kept = PlacesFile(tmp_path / "slack.json")
    kept.save()
    (good,) = chats(tmp_path)
    assert (good.check, good.ok) == ("slack", True)
    kept.now.undelivered["apr_1"] = "Slack refused: channel_not_found."
    kept.save()
    (bad,) = chats(tmp_path)
    assert (bad.ok, bad.found) == (
        False, "1 approval could not be shown, such as apr_1: Slack refused: channel_not_found.")
    (tmp_path / "slack.json").write_text("{")
    (broken,) = chats(tmp_path)
    assert not broken.ok
