"""`interlock doctor`: its findings on approvals that cannot be delivered, of keys that are not passed on, and of a
distribution beside this one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.scripted import Script, answer, link_to, problem
from interlock import __version__
from interlock.agents.model_hosts import PROVIDERS
from interlock.channels.chat.places import AskedQuestion, PlacesFile
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.operations.doctor import (
    HostFinding,
    chats,
    credentials,
    disks,
    distributions,
    doctor,
    ledger,
    ledger_writes,
    ways_to_approvers,
)
from interlock.ports.agent import AgentSpec


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize("results", [(True, True), (True, False), (False, True)])
def test_one_failed_check_is_the_exit_status(monkeypatch: pytest.MonkeyPatch, json: bool, results: tuple[bool, ...]
                                             ) -> None:
    monkeypatch.setattr("interlock.cli.operations.doctor.examine", lambda _where: iter(
        [HostFinding(f"check {number}", ok, "It is so.", "Do it.") for number, ok in enumerate(results)]))
    assert doctor(json=json) == (ExitStatus.DONE if all(results) else ExitStatus.FAILED)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="it needs a second file system")
def test_the_disk_of_the_runner_is_a_finding_if_it_is_another(tmp_path: Path) -> None:
    assert [one.check for one in disks(tmp_path)] == ["disk space"]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        (tmp_path / "runner").symlink_to(other)
        found = [one.found for one in disks(tmp_path)]
    assert [one.partition(" free at ")[2] for one in found] == [f"{tmp_path}.", f"{tmp_path}/runner."]


@pytest.mark.anyio
@pytest.mark.req("O-11")
async def test_a_channel_with_lost_notices_is_a_problem_with_the_explaining_verb(tmp_path: Path) -> None:
    listed = {"webhooks": [{"name": "ops", "host": "h", "waiting": 2, "dead": 0},
                           {"name": "phone", "kind": "ntfy", "host": "ntfy.sh", "waiting": 0, "dead": 3}]}
    async with link_to(Script({"GET /v1/webhooks": [answer(listed)]}), tmp_path) as link:
        good, bad = await ways_to_approvers(link)
    assert (good.check, good.ok, good.found) == ("webhook ops", True, "none is lost, 2 on the way.")
    assert (bad.check, bad.ok, bad.found, bad.remedy) == (
        "ntfy phone", False, "3 approvals could not be sent.", "See why with: interlock webhooks dead")


@pytest.mark.anyio
@pytest.mark.parametrize(("ledger", "status", "found"), [("writes", 200, 0), ("refuses", 503, 1)])
async def test_a_ledger_that_refuses_writes_is_a_problem(tmp_path: Path, ledger: str, status: int, found: int) -> None:
    ready = {"ok": status == 200, "ledger": ledger, "lanes": "up", "draining": False}
    async with link_to(Script({"GET /readyz": [answer(ready, status)]}), tmp_path) as link:
        findings = await ledger_writes(link)
    assert [(one.check, one.ok) for one in findings] == [("ledger", False)] * found


@pytest.mark.anyio
@pytest.mark.req("O-11")
async def test_a_key_without_the_right_to_see_channels_is_not_a_problem(tmp_path: Path) -> None:
    refused = problem(403, "Forbidden", "An administrator may.")
    async with link_to(Script({"GET /v1/webhooks": [refused]}), tmp_path) as link:
        assert await ways_to_approvers(link) == []


@pytest.mark.req("O-11", "O-13", "O-12")
def test_an_approval_that_no_chat_accepted_is_a_problem_until_it_is_decided(tmp_path: Path) -> None:
    assert list(chats(tmp_path)) == []
    kept = PlacesFile(tmp_path / "slack.json")
    kept.save()
    (good,) = chats(tmp_path)
    assert (good.check, good.ok) == ("slack", True)
    kept.now.asked["apr_1"] = AskedQuestion("make", waiting=["C1"])
    kept.save()
    (sending,) = chats(tmp_path)
    assert (sending.ok, sending.found) == (True, "1 approval on the way to a chat.")
    kept.now.asked.clear()
    kept.now.undelivered["apr_1"] = "Slack refused: channel_not_found."
    kept.save()
    (bad,) = chats(tmp_path)
    assert (bad.ok, bad.found) == (
        False, "1 approval could not be shown, such as apr_1: Slack refused: channel_not_found.")
    kept.now.ended = "Slack does not accept the app's tokens: token_revoked."
    kept.save()
    (ended,) = chats(tmp_path)
    assert (ended.ok, ended.found, ended.remedy) == (
        False, kept.now.ended, "Correct [slack] in the config, and start it again.")
    (tmp_path / "slack.json").write_text("{")
    (broken,) = chats(tmp_path)
    assert not broken.ok


@pytest.mark.req("Y-12")
def test_a_set_key_that_is_not_passed_on_is_named_with_the_line_that_passes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [key for provider in PROVIDERS for key in provider.keys]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    goose = str(tmp_path / "goose")
    (left,) = credentials("goose", AgentSpec(adapter="acp", command=goose))
    assert (left.check, left.ok) == ("credentials of goose", True)  # It may be logged in by a file.
    assert left.found == ("OPENAI_API_KEY is set here, not passed on; if it needs it, write in [agents.goose]: "
                          'env_pass = ["OPENAI_API_KEY"].')
    assert list(credentials("goose", AgentSpec(adapter="acp", command=goose, env_pass=["OPENAI_API_KEY"]))) == []
    monkeypatch.delenv("OPENAI_API_KEY")
    (missing,) = credentials("goose", AgentSpec(adapter="acp", command=goose, env_pass=["OPENAI_API_KEY"]))
    assert missing.found.startswith("OPENAI_API_KEY is to be passed on, and is not set here")


@pytest.mark.req("Y-14")
def test_two_owners_of_the_same_files_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(distributions()) == []
    metadata = tmp_path / "interlock_sdk-0.0.9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.4\nName: interlock-sdk\nVersion: 0.0.9\n")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = distributions()
    assert not found.ok
    assert found.found.startswith(f"interlock-sdk 0.0.9 is installed over files of interlock {__version__}")
    assert "Remove interlock-sdk" in found.remedy


def test_each_check_is_printed_before_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gateway that accepts a connection and never answers takes a minute."""
    def examined(_: Where) -> Iterator[HostFinding]:
        yield HostFinding("python", True, "3.11.7")
        assert "python: 3.11.7" in capsys.readouterr().out
        yield HostFinding("gateway", False, "It does not answer.", "Start one.")

    monkeypatch.setattr("interlock.cli.operations.doctor.examine", examined)
    assert doctor() == ExitStatus.FAILED
    assert "gateway: It does not answer. Start one." in capsys.readouterr().out


READ_ONLY = """
mount --bind "$1" "$1"
mount -o remount,ro,bind "$1"
exec "$2" -c "$3" "$1"
"""
"""Run a program of Python with a directory as its argument, while that is mounted read-only."""
USER_NAMESPACE = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
LOOK = """
import sys
from pathlib import Path
from interlock.cli.operations.doctor import ledger
print([(one.ok, one.found) for one in ledger(Path(sys.argv[1]))])
"""


@pytest.mark.needs("unshare")
def test_a_ledger_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    assert list(ledger(tmp_path)) == []
    ran = subprocess.run(["unshare", *USER_NAMESPACE, "--mount", "sh", "-ec", READ_ONLY, "sh", str(tmp_path),
                          sys.executable, LOOK], capture_output=True, check=False, text=True, timeout=60)
    assert ran.stdout.strip() == str([(False, f"{tmp_path}/ledger.db cannot be written.")]), ran.stderr
