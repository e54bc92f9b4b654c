"""The config's settings of chats, as the engine reads them (I-1, R-3)."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from interlock.app.chats import answering_agent, chat_settings, host_zone
from interlock.config import Config, parse

pytestmark = pytest.mark.req("I-1", "R-3")


def config(text: str) -> Config:
    return parse(text, "interlock.toml")


@pytest.mark.parametrize(("text", "agent"), [
    ("", "shell"), ('[agents.claude]\nadapter = "claude"', "claude"),
    ('[agents.a]\nadapter = "claude"\n[agents.b]\nadapter = "claude"', "shell"),
    ('[agents.a]\nadapter = "claude"\n[agents.b]\nadapter = "claude"\n[session]\ndefaultAgent = "b"', "b"),
])
def test_the_default_agent_answers_if_none_is_named(text: str, agent: str) -> None:
    assert answering_agent(config(text)) == agent
    assert chat_settings(config(text)).default_agent == agent


def test_an_empty_config_resets_by_the_hosts_clock_and_names_no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    settings = chat_settings(Config())
    assert (settings.zone, settings.workspace, settings.models) == (ZoneInfo("Asia/Tokyo"), None, frozenset())
    assert settings.naming.dm_scope == "main"
    assert settings.resets.reset is None


def test_channels_are_known_by_their_name_in_any_spelling() -> None:
    settings = chat_settings(config(
        '[session]\ntimeZone = "Asia/Tokyo"\nidleMinutes = 9\nmodels = ["a", "b", "a"]\nworkspace = "/w"\n'
        '[session.reset]\nmode = "daily"\natHour = 5\n[session.resetByChannel.Telegram]\nmode = "idle"\n'
        '[session.resetByType.group]\nmode = "none"'))
    assert settings.zone == ZoneInfo("Asia/Tokyo")
    assert list(settings.resets.by_channel) == ["telegram"]
    assert settings.resets.by_type["group"].mode == "none"
    assert settings.resets.reset is not None
    assert (settings.resets.reset.at_hour, settings.resets.legacy_idle_minutes) == (5, 9)
    assert settings.models == {"a", "b"}
    assert settings.workspace == "/w"


@pytest.mark.parametrize(("named", "zone"), [
    ("Asia/Tokyo", ZoneInfo("Asia/Tokyo")), (":Asia/Tokyo", ZoneInfo("Asia/Tokyo")),
                                             ("UTC", ZoneInfo("UTC")), ("Nowhere/None", UTC), ("../../etc/passwd",
                                             UTC)])
def test_the_hosts_zone_is_the_named_one_or_none(named: str, zone: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", named)
    assert host_zone() == zone
