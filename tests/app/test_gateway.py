"""The gateway as a process: its reaction to signals, and what it returns of a log that was restored."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from interlock.command.audit.note import parse_checkpoint
from proof.processes.fork_server import ForkedVerb, ForkServer

LISTENS = "the gateway listens on "
PATIENCE_S = 30.0
"""A gateway that has not logged the awaited line by then is ended, so that the test fails."""


def words(state: Path) -> list[str]:
    return ["gateway", "--state", str(state), "--port", "0"]


@contextlib.contextmanager
def gateway(fork_server: ForkServer, state: Path) -> Iterator[tuple[ForkedVerb, str]]:
    """Run `interlock gateway` on a free port until the block ends; it must end cleanly."""
    with fork_server.at_work(words(state), state) as process:
        impatience = threading.Timer(PATIENCE_S, process.kill)
        impatience.start()
        try:
            yield process, log_line(process, LISTENS).rpartition(" ")[2].strip()
            process.send_signal(signal.SIGTERM)
            assert process.status(20) == 0
        finally:
            impatience.cancel()


def log_line(process: ForkedVerb, marker: str) -> str:
    """Read its standard error up to the line that holds the marker."""
    for line in process.stderr:
        if marker in line:
            return line
    raise AssertionError(f"{marker!r} was never logged")


@pytest.mark.req("G-1")
def test_hangup_reloads_the_config_and_an_invalid_file_keeps_the_old_one(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    config = tmp_path / "interlock.toml"
    with gateway(fork_server, tmp_path) as (process, _):
        config.write_text("[polcy]\n")
        os.kill(process.pid, signal.SIGHUP)
        refused = json.loads(log_line(process, "config_not_reloaded"))
        assert 'did you mean "policy"?' in refused["sentences"][0]
        config.write_text('[[policy.rules]]\nname = "none"\neffect = "deny"\n')
        os.kill(process.pid, signal.SIGHUP)
        assert json.loads(log_line(process, "config_reloaded"))["rules"] == 1


@pytest.mark.req("G-1", "G-7")
@pytest.mark.parametrize(("written", "wrong"), [
    ("too-short", "secret_file hook.secret has 9 characters"), (None, "hook.secret")])
def test_an_unusable_secret_gives_one_sentence_at_the_start(
    fork_server: ForkServer, tmp_path: Path, written: str | None, wrong: str
) -> None:
    (tmp_path / "interlock.toml").write_text('[hooks.gh]\nsecret_file = "hook.secret"\n')
    if written is not None:
        (tmp_path / "hook.secret").write_text(written)
    ran = fork_server.run(words(tmp_path), tmp_path)
    assert ran.returncode == 2
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("error[Usage]: [hooks.gh]: ")
    assert wrong in last
    assert "report" not in last


RELOADED = """
[rates]
principal_a_minute = 1
principal_burst = 2
[oidc.house]
issuer = "https://127.0.0.1:1/house"
audience = ["interlock"]
tenant = "default"
default_roles = ["viewer"]
[outgoing]
allow = ["127.0.0.0/8"]
[[redaction.rules]]
name = "word"
regex = "no-such-[a-z]+"
"""
JWT = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (
    {"alg": "RS256", "typ": "JWT", "kid": "1"}, {"iss": "https://127.0.0.1:1/house", "sub": "ann"})) + ".c2ln"


@pytest.mark.req("G-1", "K-1", "K-3", "K-4")
def test_hangup_applies_issuers_rates_and_redaction_or_on_an_error_nothing(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    config = tmp_path / "interlock.toml"
    with gateway(fork_server, tmp_path) as (process, url):
        key = (tmp_path / "owner.key").read_text().strip()

        def ask(token: str = key, path: str = "/v1/commands") -> httpx2.Response:
            return httpx2.get(url + path, headers={"Authorization": f"Bearer {token}"})

        def policy_of(answer: httpx2.Response) -> str:
            return answer.headers["RateLimit-Policy"]

        before = policy_of(ask())
        assert ask(JWT).status_code == 401, "no issuer is trusted yet"
        config.write_text(RELOADED.replace("no-such-[a-z]+", "no-such-("))
        os.kill(process.pid, signal.SIGHUP)
        assert "regex" in json.loads(log_line(process, "config_not_reloaded"))["sentences"][0]
        assert (policy_of(ask()), ask(JWT).status_code) == (before, 401)
        config.write_text(RELOADED)
        os.kill(process.pid, signal.SIGHUP)
        log_line(process, "config_reloaded")
        assert ask(JWT).status_code in (502, 503), "its keys are asked for now, where nobody answers"
        assert '"principal";q=2;w=120' in policy_of(ask())
        assert [ask().status_code for _ in range(3)][-1] == 429
        config.write_text("[no-such-word]\n")
        os.kill(process.pid, signal.SIGHUP)
        refused = log_line(process, "config_not_reloaded")
        assert "(redacted: word)" in refused
        assert "no-such-word" not in refused


@pytest.mark.req("U-2")
def test_the_export_of_a_restored_log_carries_the_formerly_signed_head(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    with gateway(fork_server, tmp_path):
        pass
    shutil.copy(tmp_path / "ledger.db", tmp_path / "older")
    with gateway(fork_server, tmp_path) as (_, url):
        assert httpx2.get(url + "/v1/commands").status_code == 401  # Leaves a record, and so a head.
    shutil.copy(tmp_path / "older", tmp_path / "ledger.db")
    with gateway(fork_server, tmp_path) as (_, url):
        key = (tmp_path / "owner.key").read_text().strip()
        answer = httpx2.get(url + "/v1/audit/export", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200
    assert parse_checkpoint(json.loads(answer.text.splitlines()[-1])["checkpoint"]).size >= 1
