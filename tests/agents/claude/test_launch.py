"""How Claude Code's program is started: nothing in its arguments opens a gate, and no secret is among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.agents.claude.launch import OPENS_GATES, SERVER_VALUE, launch, transcript
from interlock.ports.agent import AgentSpec, AgentStartFailed, McpServer


class Opening:
    """The part of an opening that is read."""

    def __init__(self, home: Path, args: tuple[str, ...] = (), command: str = "", **more: Any) -> None:
        self.spec = AgentSpec(adapter="claude", command=command, args=args)
        self.environment = {"HOME": str(home)}
        self.workspace, self.servers = "/w", more.get("servers", ())
        self.session_id, self.fresh_id = "own", "fresh"
        self.agent_session, self.resume = more.get("agent_session"), more.get("resume", False)


def started(home: Path, *args: str, **more: Any) -> Any:
    opening: Any = Opening(home, args, **more)
    return launch(opening, home / "bundled")


def kept(home: Path, name: str) -> None:
    place = home / ".claude" / "projects" / "-w"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.jsonl").touch()


@pytest.mark.req("H-10")
@pytest.mark.parametrize("word", sorted(OPENS_GATES))
def test_an_argument_that_opens_a_gate_is_refused_with_or_without_a_value(word: str, tmp_path: Path) -> None:
    for written in (word, f"{word}=x"):
        with pytest.raises(AgentStartFailed, match="bypass Interlock"):
            started(tmp_path, written)


def test_the_configured_program_takes_precedence_over_the_bundled_one(tmp_path: Path) -> None:
    assert started(tmp_path).argv[0] == "claude"
    (tmp_path / "bundled").touch()
    assert started(tmp_path).argv[0] == str(tmp_path / "bundled")
    assert started(tmp_path, command="/opt/claude").argv[0] == "/opt/claude"


def test_only_an_existing_conversation_is_resumed_and_a_used_id_is_not_reused(tmp_path: Path) -> None:
    assert "--session-id=own" in started(tmp_path, resume=True).argv
    kept(tmp_path, "own")
    assert "--resume=own" in started(tmp_path, resume=True).argv
    assert "--session-id=fresh" in started(tmp_path).argv
    kept(tmp_path, "other")
    other = started(tmp_path, agent_session="other", resume=True)
    assert ("--resume=other" in other.argv, other.agent_session, other.resumes) == (True, "other", True)
    assert not transcript("none", {"HOME": str(tmp_path)})


@pytest.mark.req("A-1")
def test_server_secrets_are_in_the_environment_and_only_their_names_in_the_arguments(tmp_path: Path) -> None:
    servers = (McpServer(name="a", command="run", args=("x",), env={"TOKEN": "secret-1"}),
               McpServer(name="b", url="https://b.example", headers={"Authorization": "secret-2"}))
    found = started(tmp_path, servers=servers)
    word = next(one for one in found.argv if one.startswith("--mcp-config="))
    written = msgspec.json.decode(word.removeprefix("--mcp-config="))["mcpServers"]

    assert "secret" not in " ".join(found.argv)
    assert written["a"]["env"] == {"TOKEN": f"${{{SERVER_VALUE}0}}"}
    assert written["b"]["headers"] == {"Authorization": f"${{{SERVER_VALUE}1}}"}
    assert (found.environment[f"{SERVER_VALUE}0"], found.environment[f"{SERVER_VALUE}1"]) == ("secret-1", "secret-2")
    assert found.environment["PWD"] == "/w"
