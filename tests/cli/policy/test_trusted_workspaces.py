"""`interlock trust`: which workspaces may configure which agent, and how that is revoked (H-13)."""

from __future__ import annotations

from typing import Any

import pytest

from cli.scripted import answer
from cli.tasks.test_follower import AT
from interlock.cli.exit_status import ExitStatus
from interlock.cli.policy import trusted_workspaces
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("H-13")
RULES = "/v1/policy/rules"


def rule(id_: str, directory: str | None, **more: Any) -> dict[str, Any]:
    facts = ({"door": "workspace", "agent": "qwen", "runner": "local", "workspace": directory, "digest": "ab" * 32,
              "until": "2027-01-01T00:00:00Z"} if directory else {"door": "tool", "tool": "Bash", "until": AT})
    return {"id": id_, "tenant_id": "t", "created_at": AT, "created_by": "user:ann", "approval_id": "apr_a",
            "rule": {"name": "-", "effect": "allow", **facts}, **more}


def test_only_workspaces_are_listed(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, where = scripted({f"GET {RULES}": [answer({"rules": [rule("rul_1", "/w"), rule("rul_2", None)]})]})
    assert trusted_workspaces.trusted(where=where) == ExitStatus.DONE
    printed = capsys.readouterr().out
    assert "rul_1" in printed
    assert "/w" in printed
    assert "rul_2" not in printed


def test_a_directory_lists_every_grant_that_applies_to_it(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, where = scripted({
        f"GET {RULES}": [answer({"rules": [rule("rul_1", "/w"), rule("rul_2", "/w"), rule("rul_3", "/x"),
                                           rule("rul_4", "/w", revoked_at=AT)]})],
        f"POST {RULES}/rul_1/revoke": [answer(rule("rul_1", "/w", revoked_at=AT))],
        f"POST {RULES}/rul_2/revoke": [answer(rule("rul_2", "/w", revoked_at=AT))],
    })
    assert trusted_workspaces.forget("/w/", where=where) == ExitStatus.DONE
    assert [one.url.path for one in script.asked] == [RULES, f"{RULES}/rul_1/revoke", f"{RULES}/rul_2/revoke"]
    assert "the next start of qwen in /w is asked about again" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["/nowhere", "rul_2"])
def test_a_name_without_a_workspace_changes_nothing(what: str, scripted: Any) -> None:
    script, where = scripted({f"GET {RULES}": [answer({"rules": [rule("rul_1", "/w"), rule("rul_2", None)]})]})
    with pytest.raises(Trouble):
        trusted_workspaces.forget(what, where=where)
    assert [one.method for one in script.asked] == ["GET"]
