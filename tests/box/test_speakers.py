"""Sockets of programs that would act for a boxed agent (H-15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.box.speakers import sockets
from interlock.protocol.box import SPEAKERS

pytestmark = pytest.mark.req("H-15")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in (".gnupg/S.gpg-agent", ".docker/run/docker.sock", "run/bus", "run/keyring/ssh", "elsewhere/agent"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def names(home: Path, *left_open: str, **variables: str) -> set[str]:
    """What is hidden, from the home directory."""
    found = sockets(left_open, ({"XDG_RUNTIME_DIR": f"{home}/run", **variables},), 4_000_000_000, str(home))  # type: ignore[arg-type]
    return {str(Path(path).relative_to(home)) for path in found if path.startswith(str(home))}


def test_sockets_are_found_at_their_usual_paths(home: Path) -> None:
    assert names(home) == {".gnupg/S.gpg-agent", ".docker/run", "run/bus", "run/keyring/ssh"}


@pytest.mark.parametrize(("variable", "value"), [
    ("SSH_AUTH_SOCK", "{}"), ("DOCKER_HOST", "unix://{}"), ("DBUS_SESSION_BUS_ADDRESS", "unix:path={},guid=9a8b"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/tmp/x;unix:path={}"), ("TMUX", "{},12,0"),
])
def test_sockets_are_found_by_their_variables(home: Path, variable: str, value: str) -> None:
    assert "elsewhere/agent" in names(home, **{variable: value.format(home / "elsewhere/agent")})


def test_an_address_of_another_host_hides_nothing(home: Path) -> None:
    assert names(home, DOCKER_HOST="tcp://10.0.0.1:2375") == names(home)


@pytest.mark.parametrize("left_open", SPEAKERS)
def test_a_socket_that_is_left_open_is_not_hidden(home: Path, left_open: str) -> None:
    gone = {"ssh-agent": {"run/keyring/ssh"}, "gpg-agent": {".gnupg/S.gpg-agent"}, "docker": {".docker/run"},
            "dbus": {"run/bus"}, "tmux": set()}[left_open]
    assert names(home) - names(home, left_open) == gone
