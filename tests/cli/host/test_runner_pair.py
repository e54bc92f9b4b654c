"""A host is paired over TLS and its runner works from there: real gateway and runner, each its own process."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from certificates import Certificates, certificates
from cli.host.test_up import PATIENCE_S, read_until
from proof.processes.fork_server import ForkServer


class Place:
    """One machine: a state directory, a workspace, and the verbs typed there: forked by `fork_server`, else each in an
    interpreter of its own."""

    def __init__(self, base: Path, fork_server: ForkServer | None = None) -> None:
        self._fork_server = fork_server
        self.state, self.workspace = base / "state", base / "work"
        self.workspace.mkdir(parents=True)
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("INTERLOCK_")} | {
            "INTERLOCK_STATE": str(self.state)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-m", "interlock", *words], text=True, cwd=self.workspace,
                                env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        ran = self._fork_server.run(list(words), self.workspace,
                                    environment=self._environment) if self._fork_server is not None \
            else subprocess.run([sys.executable, "-m", "interlock", *words], cwd=self.workspace, env=self._environment,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                timeout=PATIENCE_S)
        sys.stderr.write(f"$ interlock {' '.join(words)} -> {ran.returncode}\n{ran.stderr}\n")
        return ran

    def document(self, *words: str) -> Any:
        ran = self.call(*words, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


class Pair:
    """A gateway's machine, another host, and the certificates between them."""

    def __init__(self, base: Path, fork_server: ForkServer) -> None:
        self.pem: Certificates = certificates(base / "pem", "localhost")
        self.gateway, self.host = Place(base / "gateway", fork_server), Place(base / "host", fork_server)
        self.process = self.gateway.start("gateway", "--port", "0", "--tls-cert", str(self.pem.cert),
                                          "--tls-key", str(self.pem.key))
        printed = read_until(self.process.stderr, "the gateway listens on https://127.0.0.1:")
        self.url = "https://localhost:" + printed.rsplit(":", 1)[1].strip()

    def code(self) -> str:
        ran = self.gateway.call("runners", "code")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def attached(self) -> subprocess.Popen[str]:
        runner = self.host.start("runner")
        read_until(runner.stderr, "attached")
        return runner


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"), fork_server)
    yield made
    made.process.terminate()
    made.process.communicate(timeout=PATIENCE_S)


@pytest.mark.req("L-2", "L-3", "L-6", "G-4")
def test_a_host_is_paired_runs_gets_a_new_token_and_is_revoked(pair: Pair) -> None:
    host, gateway = pair.host, pair.gateway
    ran = host.call("runner", "pair", pair.code(), "--url", pair.url, "--ca", str(pair.pem.ca), "--name", "far away")
    assert ran.returncode == 0, ran.stderr
    runner_id = ran.stdout.strip()
    token = host.state / "runner" / "paired.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    stored = json.loads((host.state / "runner" / "runner.json").read_text())
    assert stored == {"url": pair.url, "runner_id": runner_id, "ca": str(pair.pem.ca)}
    assert token.read_text().strip() not in ran.stdout + ran.stderr

    running = pair.attached()
    work = gateway.call("run", "shell", "echo far", "--yes", "--workspace", str(host.workspace))
    assert (work.returncode, work.stdout) == (0, "far\n")
    (listed,) = gateway.document("runners")["runners"]
    assert (listed["runner_id"], listed["revoked"], listed["status"]) == (runner_id, False, "online")
    assert [node["node_id"] for node in gateway.document("status")["runners"]] == [runner_id]

    rotated = gateway.call("runners", "rotate", "@last")
    assert rotated.returncode == 0, rotated.stderr
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 8
    assert "error[Unauthorized]" in err
    assert "Traceback" not in err
    token.write_text(rotated.stdout)
    running = pair.attached()

    assert gateway.call("runners", "revoke", runner_id[:12]).returncode == 0
    running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 8
    assert host.call("runner").returncode == 8
    shown = gateway.call("runners", "list")
    assert "revoked" in shown.stdout
    assert gateway.call("audit", "verify").returncode == 0


@pytest.mark.req("L-3", "G-7")
def test_a_wrong_code_and_an_unknown_certificate_give_one_sentence_each(pair: Pair) -> None:
    wrong = pair.host.call("runner", "pair", "AAAAA-AAAAA", "--url", pair.url, "--ca", str(pair.pem.ca))
    assert (wrong.returncode, wrong.stdout) == (8, "")
    assert wrong.stderr.startswith("error[Unauthorized]: This pairing code is not known")
    stranger = pair.host.call("runner", "pair", "AAAAA-AAAAA", "--url", pair.url)
    assert stranger.returncode == 6
    assert "CERTIFICATE_VERIFY_FAILED" in stranger.stderr
    clear = pair.host.call("runner", "pair", "AAAAA-AAAAA", "--url", "http://gate.example:1")
    assert clear.returncode == 2
    assert "in the clear" in clear.stderr
    assert wrong.stderr.count("\n") == stranger.stderr.count("\n") == clear.stderr.count("\n") == 1


@pytest.mark.req("L-2")
def test_an_incomplete_certificate_and_a_public_plaintext_address_are_refused_at_start(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    place = Place(tmp_path, fork_server)
    for words, sentence in (
        (["--tls-cert", "cert.pem"], "needs its key"), (["--host", "0.0.0.0"], "in clear"),
        (["--host", "0.0.0.0", "--behind-proxy"], "in clear"),
        (["--tls-cert", "cert.pem", "--tls-key", "key.pem"], "There is no file"),
    ):
        ran = place.call("gateway", "--port", "0", *words)
        assert ran.returncode == 2
        assert sentence in ran.stderr
        assert "Traceback" not in ran.stderr


@pytest.mark.req("L-2", "G-3")
def test_up_uses_tls_to_itself_with_its_certificate(tmp_path: Path, fork_server: ForkServer) -> None:
    pem = certificates(tmp_path / "pem", "gate.example.org")
    place = Place(tmp_path, fork_server)
    place.state.mkdir(mode=0o700)
    (place.state / "interlock.toml").write_text(
        f'[gateway]\ntls_cert = "{pem.cert}"\ntls_key = "{pem.key}"\nhosts = ["gate.example.org"]\n')
    up = place.start("up", "--port", "0")
    try:
        assert "https://127.0.0.1:" in read_until(up.stderr, "Ctrl-C ends all of it")
        work = place.call("run", "shell", "echo near", "--yes")
        assert (work.returncode, work.stdout) == (0, "near\n")
    finally:
        up.terminate()
        up.communicate(timeout=PATIENCE_S)
