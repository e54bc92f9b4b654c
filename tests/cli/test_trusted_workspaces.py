"""`interlock trust`: which workspaces may configure which agent, and how that is taken back (H-13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.scripted import Script, answer, link_to
from cli.test_follower import AT
from interlock.cli import trusted_workspaces
from interlock.cli.exit_status import ExitStatus
from interlock.cli.place import NOWHERE
from interlock.cli.verb_error import Trouble

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-13")]
RULES = "/v1/policy/rules"


def rule(id_: str, directory: str | None, **more: Any) -> dict[str, Any]:
    said = ({"door": "workspace", "agent": "qwen", "runner": "local", "workspace": directory, "digest": "ab" * 32,
             "until": "2027-01-01T00:00:00Z"} if directory else {"door": "tool", "tool": "Bash", "until": AT})
    return {"id": id_, "tenant_id": "t", "created_at": AT, "created_by": "user:ann", "approval_id": "apr_a",
            "rule": {"name": "-", "effect": "allow", **said}, **more}


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def use(script: Script) -> None:
        monkeypatch.setattr(trusted_workspaces, "GatewayLink", lambda _: link_to(script, tmp_path))
    return use


async def test_it_lists_the_workspaces_alone(link: Any, capsys: pytest.CaptureFixture[str]) -> None:
    link(Script({f"GET {RULES}": [answer({"rules": [rule("rul_1", "/w"), rule("rul_2", None)]})]}))
    assert await trusted_workspaces.listed(NOWHERE, json=False) == ExitStatus.DONE
    said = capsys.readouterr().out
    assert "rul_1" in said
    assert "/w" in said
    assert "rul_2" not in said


async def test_a_directory_names_every_yes_that_holds_for_it(link: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script = Script({
        f"GET {RULES}": [answer({"rules": [rule("rul_1", "/w"), rule("rul_2", "/w"), rule("rul_3", "/x"),
                                           rule("rul_4", "/w", revoked_at=AT)]})],
        f"POST {RULES}/rul_1/revoke": [answer(rule("rul_1", "/w", revoked_at=AT))],
        f"POST {RULES}/rul_2/revoke": [answer(rule("rul_2", "/w", revoked_at=AT))],
    })
    link(script)
    assert await trusted_workspaces.forgotten("/w/", NOWHERE, json=False) == ExitStatus.DONE
    assert [one.url.path for one in script.asked] == [RULES, f"{RULES}/rul_1/revoke", f"{RULES}/rul_2/revoke"]
    assert "the next start of qwen in /w is asked about again" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["/nowhere", "rul_2"])
async def test_what_names_no_workspace_changes_nothing(what: str, link: Any) -> None:
    script = Script({f"GET {RULES}": [answer({"rules": [rule("rul_1", "/w"), rule("rul_2", None)]})]})
    link(script)
    with pytest.raises(Trouble):
        await trusted_workspaces.forgotten(what, NOWHERE, json=False)
    assert [one.method for one in script.asked] == ["GET"]
