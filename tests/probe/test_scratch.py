"""The HOME of a checked agent: its settings without servers and secrets, the stand-in's over them, and no access to the
user's own."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from interlock.ports.agent import AgentSpec
from interlock.probe.model_endpoint import NOT_A_KEY, pointing_of
from interlock.probe.scratch import furnish, home_of, surroundings

pytestmark = pytest.mark.req("H-10")


def written(home: Path, name: str, own: str, ours: str) -> str:
    furnish(home, {name: own.encode()}, {name: ours})
    return (home / name).read_text()


def test_json_keeps_settings_about_questions_and_no_server_or_secret(tmp_path: Path) -> None:
    own = '{"permission": {"bash": "ask", "edit": "deny"}, "mcpServers": {"x": {}}, "API_KEY": "s", /* c */ "theme": 1}'
    ours = '{"permission": {"bash": "allow"}, "url": "u"}'
    found = msgspec.json.decode(written(tmp_path, "a/settings.json", own, ours))

    assert found == {"permission": {"bash": "allow", "edit": "deny"}, "theme": 1, "url": "u"}


def test_toml_keeps_values_that_are_not_set_by_the_check(tmp_path: Path) -> None:
    own = ('approval = "always"\nmodel = "mine"\nOPENAI_TOKEN = "s"\n[mcp_servers.x]\ncommand = "y"\n'
           '[tools]\nweb = true\n')
    found = tomllib.loads(written(tmp_path, "config.toml", own, 'model = "stand-in"\n'))

    assert found == {"approval": "always", "tools": {"web": True}, "model": "stand-in"}


def test_yaml_keeps_top_level_scalars(tmp_path: Path) -> None:
    own = "MODE: approve\nextensions:\n  x: y\nMY_SECRET: s\nMODEL: a\n"
    text = written(tmp_path, "config.yaml", own, "MODEL: b\n")

    assert text == "MODE: approve\nMODEL: b\n"


@pytest.mark.parametrize("own", ["{not json", "[1]", ""])
def test_unreadable_settings_are_left_out(own: str, tmp_path: Path) -> None:
    assert msgspec.json.decode(written(tmp_path, "x.json", own, '{"a": 1}')) == {"a": 1}


def test_the_agent_gets_no_secret_no_other_home_and_only_loopback(tmp_path: Path) -> None:
    spec = AgentSpec(adapter="acp", command="goose",
                     env={"MY_API_KEY": "s", "HOME": "/home/kim", "CODEX_HOME": "/home/kim/.codex", "MODE": "ask"})
    made = surroundings(spec, pointing_of(spec.adapter, spec.command), "http://127.0.0.1:7", home=tmp_path,
                        workspace=tmp_path, session_id="s1",
                        base={"PATH": "/bin", "XDG_CONFIG_HOME": "/home/kim/.config"})

    assert (made["MY_API_KEY"], made["MODE"], made["HOME"]) == (NOT_A_KEY, "ask", str(tmp_path))
    assert "CODEX_HOME" not in made
    assert not [name for name in made if name.startswith("XDG_")]
    assert made["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert home_of(spec, {}) == Path("/home/kim")
