"""The verbs as a person types them, with real gateway, runner and shell agent, each its own process; all but the agent
are forked."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from interlock.cli import completion
from interlock.cli.dispatch import dispatch
from interlock.cli.host.children import Child
from proof.processes.fork_server import ForkedVerb, ForkServer

PATIENCE_S = 60
COUNTING = "for i in $(seq 1 {n}); do echo line $i; sleep 0.1; done"


class Site:
    """A state directory with a workspace, and `interlock up` at work on it."""

    def __init__(self, base: Path, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self.state = base / "state"
        self.workspace = base / "work"
        self.workspace.mkdir()
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("INTERLOCK_")} | {
            "INTERLOCK_STATE": str(self.state)}
        self.up: ForkedVerb

    @contextmanager
    def at_work(self) -> Generator[ForkedVerb]:
        """`interlock up` at work, which has started everything."""
        with self._fork_server.at_work(["up", "--port", "0"], self.workspace, environment=self._environment) as up:
            read_until(up.stderr, "Ctrl-C ends all of it")
            yield up
            up.terminate()
            up.wait(PATIENCE_S)

    def start(self, *words: str, **how: Any) -> subprocess.Popen[str]:
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([sys.executable, "-m", "interlock", *words], text=True, cwd=self.workspace,
                                env=self._environment, **(settings | how))

    def call(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        ran = self._fork_server.run(list(words), self.workspace, stdin=stdin, environment=self._environment)
        # Shown by pytest with a test that fails.
        sys.stderr.write(f"$ interlock {' '.join(words)} -> {ran.returncode}\n{ran.stderr}\n")
        return ran

    def document(self, *words: str) -> Any:
        ran = self.call(*words, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    @property
    def gateway(self) -> int:
        return json.loads((self.state / "gateway.json").read_text())["pid"]


def read_until(stream: IO[str] | None, marker: str) -> str:
    """Read lines until one holds the marker."""
    assert stream is not None
    printed = ""
    for line in stream:
        printed += line
        if marker in line:
            return printed
    raise AssertionError(f"{marker!r} was never said: {printed}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"), fork_server)
    with made.at_work() as made.up:
        yield made


@pytest.fixture
def typed(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run a verb in this process and return its exit status and standard output. For tests that need no process."""
    for name in [name for name in os.environ if name.startswith("INTERLOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INTERLOCK_STATE", str(site.state))
    monkeypatch.chdir(site.workspace)

    def typed(*words: str) -> tuple[int, str]:
        return dispatch([*words]), capsys.readouterr().out

    return typed


@pytest.mark.req("G-2")
def test_a_log_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    async def run() -> int:
        child = Child("gateway", lambda: ["gateway", "--bogus"], tmp_path / "gateway.log")
        await child.start()
        return await child.wait()

    assert asyncio.run(run()) == 2
    assert (tmp_path / "gateway.log").stat().st_mode & 0o777 == 0o600
    assert b"error[Usage]" in (tmp_path / "gateway.log").read_bytes()


@pytest.mark.req("G-3", "G-4", "G-7")
def test_only_the_result_is_on_standard_output(site: Site) -> None:
    (site.workspace / "a.bin").write_text("\x1b[31m no newline")
    ran = site.call("run", "shell", "cat a.bin", "--yes")
    assert (ran.returncode, ran.stdout) == (0, "\x1b[31m no newline")
    last = ran.stderr.rstrip().splitlines()[-1]
    assert last.startswith("succeeded · ")
    assert "\x1b" not in ran.stderr


@pytest.mark.req("G-4")
def test_piped_input_becomes_part_of_the_prompt(site: Site) -> None:
    ran = site.call("run", "shell", "--yes", "echo one", stdin="echo two\n")
    assert (ran.returncode, ran.stdout) == (0, "one\ntwo\n")


@pytest.mark.req("G-7", "A-2")
def test_a_failure_has_exit_status_1_and_one_last_line(site: Site) -> None:
    ran = site.call("run", "shell", "echo out; echo err >&2; exit 3", "--yes")
    assert (ran.returncode, ran.stdout) == (1, "out\n")
    assert ran.stderr.rstrip().splitlines()[-1].startswith("error[PROCESS_EXIT]: command 1 of 1 failed")
    assert "err\n" in ran.stderr


@pytest.mark.req("G-7")
def test_a_failure_as_json_names_the_file_of_the_agents_last_lines(site: Site) -> None:
    ran = site.call("run", "shell", "echo err >&2; exit 3", "--yes", "--json")
    assert ran.returncode == 1
    command_id = json.loads(ran.stdout)["id"]
    assert ran.stderr.rstrip().endswith(f"See the agent's last lines with: interlock attach {command_id} --from-start")


@pytest.mark.req("G-7")
def test_tab_completes_the_existing_commands(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # At a terminal a slow gateway is not waited for; here the machine may be busy.
    monkeypatch.setattr(completion, "ASK_S", PATIENCE_S)
    monkeypatch.setenv("INTERLOCK_STATE", str(site.state))

    def offered(*words: str) -> list[str]:
        assert dispatch(["__complete", *words]) == 0
        return capsys.readouterr().out.split()

    assert offered("attach", "")[0] == "@last"
    assert set(offered("attach", "")) >= {one["id"] for one in site.document("commands")["commands"]}
    assert "shell" in offered("run", "")


@pytest.mark.req("G-7", "A-5", "P-5")
def test_a_tool_denied_elsewhere_does_not_run_and_the_decider_is_shown(site: Site) -> None:
    running = site.start("run", "shell", "touch never")
    read_until(running.stderr, "waiting for you; answer from any terminal")
    shown = site.document("approvals")["approvals"]
    assert [one["title"] for one in shown] == ["$ touch never"]
    denied = site.call("deny", shown[0]["id"][:-1], "--yes", "--reason", "not today")
    assert denied.returncode == 0
    assert "was denied by user:owner: not today" in denied.stdout
    out, err = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out) == (0, "")
    assert "was denied by user:owner: not today" in err
    assert not (site.workspace / "never").exists()
    late = site.call("approve", shown[0]["id"], "--yes")
    assert late.returncode == 9
    assert "too late" in late.stderr


@pytest.mark.req("G-7", "P-2")
def test_a_terminal_user_is_asked(site: Site) -> None:
    ours, theirs = pty.openpty()
    running = site.start("run", "shell", "printf '\\033[2Jhello\\n'", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen, answered = "", False
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # The other end is closed: everything was read.
            break
        seen += piece.decode()
        if "as JSON: " in seen and not answered:
            answered = True
            os.write(ours, b"y\n")
    os.close(ours)
    assert running.wait(PATIENCE_S) == 0
    assert "\\x1b[2Jhello" in seen
    assert "\x1b[2J" not in seen
    assert "was \x1b[32mgranted\x1b[0m by user:owner" in seen


@pytest.mark.req("G-7", "C-1")
def test_canceled_has_exit_status_4_and_timed_out_5(site: Site) -> None:
    running = site.start("run", "shell", "echo begun; sleep 60", "--yes")
    read_until(running.stdout, "begun")
    assert site.call("cancel", "@last").returncode == 0
    running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 4
    assert site.call("run", "shell", "sleep 60", "--yes", "--timeout", "1s").returncode == 5


@pytest.mark.req("G-4", "G-7")
def test_work_continues_after_ctrl_c_and_attach_shows_the_rest(site: Site) -> None:
    running = site.start("run", "shell", COUNTING.format(n=20), "--yes")
    first = read_until(running.stdout, "line 3")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert "the work continues" in err
    assert "interlock attach cmd_" in err
    back = site.call("attach", "@last")
    assert back.returncode == 0
    assert first + out + back.stdout == "".join(f"line {n}\n" for n in range(1, 21))
    assert site.call("attach", "@last", "--from-start").stdout == "".join(f"line {n}\n" for n in range(1, 21))


@pytest.mark.req("G-3", "G-4", "S-3", "C-7")
def test_a_killed_gateway_is_restarted_and_the_stream_loses_nothing(site: Site) -> None:
    running = site.start("run", "shell", COUNTING.format(n=30), "--yes")
    first = read_until(running.stdout, "line 3")
    os.kill(site.gateway, signal.SIGKILL)
    printed = read_until(site.up.stderr, "runs again")
    assert "the gateway was ended by SIGKILL; starting it again" in printed
    out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0
    assert first + out == "".join(f"line {n}\n" for n in range(1, 31))
    assert "the connection to the gateway was lost" in err
    assert "reattached after" in err


@pytest.mark.req("G-1", "L-4")
def test_a_reload_adds_a_configured_agent_and_an_invalid_config_changes_nothing(site: Site) -> None:
    config = site.state / "interlock.toml"
    config.write_text('[agents.say]\nadaptor = "exec"\n')
    refused = site.call("config", "reload")
    assert refused.returncode == 2
    assert 'did you mean "adapter"?' in refused.stderr
    config.write_text('[agents.say]\nadapter = "exec"\ncommand = "echo"\n')
    assert "the runner has read the config again" in site.call("config", "reload").stdout
    assert site.call("run", "say", "hello", "--yes").stdout == "hello\n"
    config.unlink()
    site.up.send_signal(signal.SIGHUP)
    read_until(site.up.stderr, "read the config again")


@pytest.mark.req("G-3")
def test_a_second_up_names_the_running_one(site: Site) -> None:
    second = site.call("up")
    assert second.returncode == 9
    assert f"process {site.up.pid}" in second.stderr


@pytest.mark.req("G-4")
def test_a_session_can_be_joined_by_key_and_by_directory(site: Site) -> None:
    first = site.document("run", "shell", "echo 1", "--yes", "--session", "deploy")
    second = site.document("run", "shell", "echo 2", "--yes", "--session", "deploy")
    third = site.document("run", "shell", "echo 3", "--yes", "--continue")
    assert first["target"]["session_id"] == second["target"]["session_id"] == third["target"]["session_id"]


@pytest.mark.req("G-4")
def test_a_run_closes_only_the_session_that_it_opened_for_itself(site: Site) -> None:
    own = site.document("run", "shell", "echo own", "--yes")["target"]["session_id"]
    kept = site.document("run", "shell", "echo kept", "--yes", "--session", "kept")["target"]["session_id"]
    assert site.document("sessions", own)["state"] in ("closing", "closed")
    assert site.document("sessions", kept)["state"] == "idle"


@pytest.mark.req("G-4")
def test_detached_prints_the_id_at_once(site: Site) -> None:
    ran = site.call("run", "shell", "echo later", "--detach")
    command_id = ran.stdout.strip()
    assert ran.returncode == 0
    assert site.call("attach", command_id, "--yes").stdout == "later\n"


@pytest.mark.req("G-7")
def test_every_reading_verb_prints_one_document(site: Site, typed: Callable[..., tuple[int, str]]) -> None:
    def document(*words: str) -> Any:
        status, out = typed(*words, "--json")
        assert status == 0
        return json.loads(out)

    for name in ("commands", "approvals", "sessions"):
        assert isinstance(document(name)[name], list)
    assert site.document("status")["runners"][0]["node_id"] == "local"
    assert document("doctor")["ok"] is True
    assert "shell" in [one["agent_id"] for one in document("agents")["offered"]]
    assert document("commands", "@last")["id"].startswith("cmd_")
    assert document("config", "check")["ok"] is True
    assert "gateway" in document("config", "show")
    for words in (["commands"], ["sessions"], ["status"], ["approvals", "--all"], ["agents"], ["commands", "@last"]):
        status, out = typed(*words)
        assert status == 0
        assert "\x1b" not in out


@pytest.mark.req("G-7")
def test_every_event_is_a_line_of_json(site: Site) -> None:
    ran = site.call("run", "shell", "echo x", "--yes", "--jsonl")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {"frames", "status"} == {line["stream"] for line in lines}
    assert "session.turn.end" in [line["frame"]["type"] for line in lines if "frame" in line]


@pytest.mark.req("U-5", "G-7")
def test_the_audit_log_is_exported_and_verified_and_a_changed_byte_is_detected(
    site: Site, typed: Callable[..., tuple[int, str]]
) -> None:
    assert site.call("audit", "verify").returncode == 0
    log = site.workspace / "audit.ndjson"
    assert site.call("audit", "export", str(log)).returncode == 0
    assert typed("audit", "export", str(log))[0] == 2
    assert typed("audit", "verify", str(log))[0] == 0
    status, out = typed("audit", "verify", str(log), "--json")
    assert (status, json.loads(out)["ok"]) == (0, True)
    changed = log.read_bytes().replace(b'"vote"', b'"void"', 1)
    log.write_bytes(changed)
    status, out = typed("audit", "verify", str(log))
    assert status == 1
    assert out.startswith("not ok at record ")


@pytest.mark.req("G-3", "L-3")
def test_a_revoked_runner_stays_ended_and_the_gateway_continues(site: Site) -> None:
    gateway = site.gateway
    assert site.call("runners", "revoke", "local").returncode == 0
    printed = read_until(site.up.stderr, "revoked")
    assert f"remove {site.state / 'runner' / 'token'} and start it" in printed
    assert (site.gateway, site.call("status").returncode) == (gateway, 0)


@pytest.mark.req("G-3", "G-7")
def test_ctrl_c_ends_gateway_and_runner_and_leaves_nothing(site: Site) -> None:
    gateway = site.gateway
    site.up.send_signal(signal.SIGINT)
    err = site.up.stderr.read()
    assert site.up.status(PATIENCE_S) == 130
    assert err.rstrip().endswith("ended")
    assert not (site.state / "gateway.json").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(gateway, 0)
    assert site.call("status").returncode == 6


@pytest.mark.req("G-3", "L-3")
def test_after_a_revocation_up_explains_how_to_get_a_runner_again(site: Site) -> None:
    refused = site.call("up", "--port", "0")
    assert refused.returncode == 8
    token = site.state / "runner" / "token"
    assert f"remove {token} and start again" in refused.stderr
    token.unlink()
    with site.at_work():
        pass
