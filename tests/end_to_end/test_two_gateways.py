"""One runner and two gateways, each its own process: one commands, the other watches; they change places (D-5)."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.host.test_runner_pair import Place
from cli.host.test_up import PATIENCE_S, read_until

pytestmark = pytest.mark.long


class Gateway(Place):
    """A gateway on a machine of its own."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.process = self.start("gateway", "--port", "0")
        self.url = read_until(self.process.stderr, "the gateway listens on").rsplit(" ", 1)[1].strip()
        self.id = str(self.get("/v1/status")["gateway_id"])

    def _open(self, path: str, accept: str) -> Any:
        key = (self.state / "owner.key").read_text().strip()
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {key}", "Accept": accept})
        return urllib.request.urlopen(request, timeout=PATIENCE_S)

    def get(self, path: str) -> Any:
        with self._open(path, "application/json") as answer:
            return json.load(answer)

    def stream(self, path: str) -> Any:
        """A stream from its first element; one of a session that is about to be there is asked for again."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._open(path, "text/event-stream")
            except urllib.error.HTTPError as error:
                if error.code != 404 or time.monotonic() > deadline:
                    raise

    def frames_until(self, session_id: str, kind: str) -> list[dict[str, Any]]:
        """The runner's frames of a session, from its first to the first of this type, as they come."""
        frames: list[dict[str, Any]] = []
        with self.stream(f"/v1/sessions/{session_id}/frames?view=raw") as stream:
            for line in stream:
                if not line.startswith(b"data: "):
                    continue
                content = json.loads(line[6:])
                if content["kind"] == "C" and "n" in content:
                    frames.append(content["frame"])
                    if frames[-1]["type"] == kind:
                        return frames
        raise AssertionError(f"the stream ended before {kind}")

    def session(self, session_id: str) -> dict[str, Any]:
        return dict(self.get(f"/v1/sessions/{session_id}"))

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_S)


class Host(Place):
    """The host whose runner serves both."""

    def attached(self, gateways: int) -> subprocess.Popen[str]:
        runner = self.start("runner")
        read_until(runner.stderr, f'"attached": "{gateways} of {gateways}"')
        return runner


class Three:
    """Gateways `a` and `b`, and a runner that is paired with both."""

    def __init__(self, base: Path) -> None:
        self.a, self.b, self.host = Gateway(base / "a"), Gateway(base / "b"), Host(base / "host")
        for gateway in (self.a, self.b):
            code = gateway.call("runners", "code").stdout.strip()
            assert self.host.call("runner", "pair", code, "--url", gateway.url).returncode == 0
        self.runner = self.host.attached(2)

    def working(self, prompt: str, *words: str) -> tuple[str, str]:
        """Give the shell a prompt through `a`: the command's id, and the session's as soon as `b` sees its turn."""
        ran = self.a.call("run", "shell", prompt, "--workspace", str(self.host.workspace), "--detach", *words)
        command_id = ran.stdout.split()[0]
        session_id = str(self.a.get(f"/v1/commands/{command_id}")["target"]["session_id"])
        return command_id, session_id


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    made = Three(tmp_path_factory.mktemp("three"))
    yield made
    made.runner.terminate()
    made.runner.communicate(timeout=PATIENCE_S)
    made.a.end()
    made.b.end()


def content(frames: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(frame["seq"], frame["message_id"]) for frame in frames]


@pytest.mark.req("D-5", "G-4")
def test_the_second_gateway_watches_and_takes_over_waiting_work(three: Three) -> None:
    a, b, host = three.a, three.b, three.host
    command_id, session_id = three.working("touch taken", "--session", "handed")
    a.frames_until(session_id, "agent.interaction.request")
    b.frames_until(session_id, "agent.interaction.request")
    seen = b.session(session_id)
    assert (seen["observed"], seen["controller"], seen["state"]) == (True, a.id, "running")
    assert (a.session(session_id).get("observed", False), a.session(session_id)["controller"]) == (False, a.id)
    assert b.document("approvals")["approvals"] == []

    refused = b.call("run", "shell", "echo no", "--session", seen["session_key"])
    assert refused.returncode == 9
    assert f"Gateway {a.id} controls session {session_id}" in refused.stderr
    assert f"--to {b.id}" in refused.stderr

    wrong = host.call("runner", "take", session_id, "--to", "gw_nowhere")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (9, 1)
    taken = host.call("runner", "take", session_id, "--to", b.id)
    assert (taken.returncode, taken.stdout.strip()) == (0, session_id)

    (asked,) = _waiting(b, session_id)
    assert b.call("approve", asked, "--yes").returncode == 0
    # The command was a's: its turn is followed there to its end, though a could do nothing about it any more.
    assert a.call("attach", command_id).returncode == 0
    assert (host.workspace / "taken").exists()
    assert (a.session(session_id).get("observed", False), a.session(session_id)["controller"]) == (True, b.id)
    assert [one["state"] for one in a.document("approvals", "--all")["approvals"]] == ["void"]
    again = b.call("run", "shell", "echo mine", "--session", seen["session_key"], "--yes")
    assert (again.returncode, again.stdout) == (0, "mine\n")

    # And back by the word of the one in control, over REST (`control.session.release`).
    back = b.call("sessions", "release", session_id, "--to", a.id)
    assert (back.returncode, back.stdout.strip()) == (0, session_id)
    deadline = time.monotonic() + PATIENCE_S
    while a.session(session_id)["controller"] != a.id:
        assert time.monotonic() < deadline, "the gateway did not learn that it is in control again"
        time.sleep(0.05)
    once_more = a.call("run", "shell", "echo back", "--session", "handed", "--yes")
    assert (once_more.returncode, once_more.stdout) == (0, "back\n")
    late = b.call("sessions", "release", session_id, "--to", b.id)
    assert (late.returncode, f"Gateway {a.id} controls session {session_id}" in late.stderr) == (9, True)
    assert a.call("audit", "verify").returncode == b.call("audit", "verify").returncode == 0


def _waiting(gateway: Gateway, session_id: str) -> list[str]:
    """The approvals that wait, read once the question that was asked again is there."""
    (first,) = gateway.frames_until(session_id, "x-interlock.control.changed")
    assert first["seq"] == 1, "a session that begins is announced to those who observe"
    with gateway.stream("/v1/events") as stream:
        for line in stream:
            if line.startswith(b"data: ") and json.loads(line[6:]).get("event") == "approval":
                break
    return [one["id"] for one in gateway.document("approvals")["approvals"]]


@pytest.mark.req("D-5", "D-6")
def test_a_killed_runner_sends_the_same_frames_to_both_gateways(three: Three) -> None:
    a, b = three.a, three.b
    command_id, session_id = three.working("echo begun")
    a.frames_until(session_id, "agent.interaction.request")
    b.frames_until(session_id, "agent.interaction.request")
    three.runner.kill()
    three.runner.communicate(timeout=PATIENCE_S)
    three.runner = three.host.attached(2)
    at_a, at_b = (gateway.frames_until(session_id, "session.closed") for gateway in (a, b))
    assert content(at_a) == content(at_b)
    assert [frame["seq"] for frame in at_b] == list(range(1, len(at_b) + 1))
    assert a.call("attach", command_id).returncode == 1
    assert b.session(session_id).get("lost_frame_count", 0) == 0


@pytest.mark.req("D-5", "L-3")
def test_an_absent_gateway_does_not_disturb_the_other(three: Three) -> None:
    runners = three.b.document("runners")["runners"]
    assert three.b.call("runners", "revoke", runners[0]["runner_id"]).returncode == 0
    read_until(three.runner.stderr, '"refused"')
    ran = three.a.call("run", "shell", "echo still", "--workspace", str(three.host.workspace), "--yes")
    assert (ran.returncode, ran.stdout) == (0, "still\n")
