"""`interlock conformance`: the register as it is, and the conversations from the command line."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from interlock.conformance.register import requirements
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

ROOT = Path(__file__).resolve().parents[2]


def conformance(fork_server: ForkServer, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    ran = fork_server.run(["conformance", *words], ROOT)
    assert ran.returncode == status, ran.stderr
    return ran


@pytest.mark.req("G-7")
def test_the_register_is_printed_completely_with_its_gaps(fork_server: ForkServer) -> None:
    rows: dict[str, Any] = tomllib.loads((ROOT / "spec" / "requirements.toml").read_text())
    assert [one.id for one in requirements()] == list(rows)
    printed = json.loads(conformance(fork_server, "--json").stdout)
    assert {one["id"]: one["status"] for one in printed["requirements"]} == {
        name: row["status"] for name, row in rows.items()}
    assert sum(printed["totals"].values()) == len(rows)
    text = conformance(fork_server).stdout
    table, _, gaps = text.partition("\nGaps:\n")
    assert all(row["clause"] in table for row in rows.values())
    assert all(row["reason"] in gaps for row in rows.values() if "reason" in row)


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("words", "says"), [
    (["--master", "http://127.0.0.1:1/rawp", "--token-file", "/dev/null"], "is not the URL of a link"),
    (["--master", "ws://127.0.0.1:1/rawp"], "--token-file"),
    (["--master", "ws://127.0.0.1:1/rawp", "--token-file", "/nowhere"], "/nowhere cannot be read"),
    (["--master", "ws://127.0.0.1:1/rawp", "--token-file", "/dev/null"], "is empty"),
    (["--master", "ws://127.0.0.1:1/rawp", "--runner"], "exclude each other"),
    (["--runner", "--port", "70000"], "not to be had"),
])
def test_invalid_arguments_give_one_sentence_and_status_2(fork_server: ForkServer, words: list[str], says: str) -> None:
    ran = conformance(fork_server, *words, status=2)
    assert says in ran.stderr
    assert ran.stdout == ""


@pytest.mark.req("G-7", "W-1")
def test_a_gateway_is_checked_from_the_command_line(fork_server: ForkServer, tmp_path: Path) -> None:
    stack = Stack(tmp_path, "", fork_server)
    stack.start("gateway")
    try:
        stack.until_up()
        link = stack.url.replace("http", "ws") + "/rawp"
        words = ("--master", link, "--quick", "--token-file")
        printed = json.loads(conformance(fork_server, *words, str(stack.token), "--json").stdout)
        assert printed["ok"]
        assert {one["outcome"] for one in printed["findings"]} == {"held", "not run"}
        (tmp_path / "wrong").write_text("wrong")
        ran = conformance(fork_server, *words, str(tmp_path / "wrong"), status=1)
        assert "broken: hello-welcome" in ran.stderr
    finally:
        stack.down()
