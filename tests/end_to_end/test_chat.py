"""`interlock chat` with a real gateway and a real agent: messages, words for the gateway, an exit status (V-1)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from proof.house import House

PATIENCE_S = 60


def chat(house: House, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "interlock", "chat", *options, "--state", str(house.state)],
                          input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                          env={**os.environ, "INTERLOCK_URL": house.url})


@pytest.mark.req("V-1", "R-4", "I-1")
def test_a_conversation_is_piped_through(house: House) -> None:
    before = chat(house, "/status\n", "shell", "--session", "talk")
    assert (before.returncode, "not begun" in before.stdout) == (0, True)
    done = chat(house, "echo one # free\n", "shell", "--session", "talk")
    assert (done.returncode, done.stdout) == (0, "one\n"), done.stderr
    first = house.get("/v1/sessions")["items"][0]
    assert first["session_key"] == "agent:shell:talk"
    again = chat(house, "/new echo two # free\n/status\n", "--session", "agent:shell:talk")
    assert again.returncode == 0, again.stderr
    assert {"two", "agent shell · model its own choice · running"} & set(again.stdout.splitlines())
    assert "a new session begins" in again.stderr
    newest = house.get("/v1/sessions")["items"][0]
    assert newest["session_key"] == "agent:shell:talk"
    assert newest["session_id"] != first["session_id"]
    failed = chat(house, "exit 3 # free\n", "shell", "--session", "talk")
    assert failed.returncode == 1
    assert "exit status 3" in failed.stderr


@pytest.mark.req("V-1")
def test_stop_ends_what_runs(house: House) -> None:
    done = chat(house, "sleep 60 # free\n/stop\n", "shell", "--session", "halt")
    assert done.returncode == 4, done.stderr
    assert "Stopping 1 command." in done.stdout


@pytest.mark.req("N-3")
def test_status_says_where_things_are_and_which_session_was_last(house: House) -> None:
    chat(house, "echo x # free\n", "shell", "--session", "where")
    told = subprocess.run([sys.executable, "-m", "interlock", "status", "--state", str(house.state)], check=True,
                          capture_output=True, text=True, timeout=PATIENCE_S,
                          env={**os.environ, "INTERLOCK_URL": house.url}).stdout
    said = dict(line.split("  ", 1) for line in told.splitlines() if line.startswith(("state directory", "store ")))
    states, stores = house.places()
    assert said["state directory"].strip() in states
    assert said["store"].strip() in stores
    assert "last session     agent:shell:where · " in told
