"""`interlock discard`: the runner discards staged changes (H-17)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.scripted import answer
from cli.sessions.test_session_lives import PAGE, session
from interlock.cli.exit_status import ExitStatus
from interlock.cli.sessions.staged_changes import discard
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("H-17")


@pytest.mark.parametrize(("files", "body", "what"), [
    (("./a", "d/b"), {"files": ["a", "d/b"]}, "these files"), ((), {}, "all staged changes")])
def test_files_are_relative_to_the_workspace_and_by_default_all_are_discarded(
    files: tuple[str, ...], body: dict[str, Any], what: str, scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script, where = scripted({"GET /v1/sessions": [answer(PAGE)],
                              "POST /v1/sessions/s-1/discard": [answer(session())]})
    assert discard("@last", *files, yes=not files, where=where) == ExitStatus.DONE
    assert json.loads(script.asked[-1].content) == body
    printed = capsys.readouterr()
    assert printed.out == "s-1\n"
    assert f"asked the runner to throw {what} away" in printed.err


def test_discarding_all_files_needs_the_yes_option(scripted: Any) -> None:
    script, where = scripted({})
    with pytest.raises(Trouble, match="Nothing is named"):
        discard("@last", where=where)
    assert script.asked == []
