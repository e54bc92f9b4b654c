"""Settings of a prompt (A-6, H-11): the prompt is not sent to an agent that does not support them."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.ports.agent import NotAsking, PromptSettings, SettingRefused
from interlock.protocol import payloads as p
from interlock.runner.turn.turn_settings import asks, missing, settings_of, settle, switches

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-6")]


def features(**fields: Any) -> p.Features:
    return p.Features(**{"adapter_type": "process", "permission": "asks", **fields})


class Settable:
    """An agent that keeps what it was set to."""

    def __init__(self) -> None:
        self.settings: list[PromptSettings] = []

    async def settle(self, settings: PromptSettings) -> None:
        self.settings.append(settings)


class Lapsed(Settable):
    """One that has stopped asking."""

    asks = False


def wanted(**fields: Any) -> PromptSettings:
    return settings_of(p.PromptRequest(prompt_id="p", input_type="text", origin="user", **fields))


def test_a_plain_prompt_needs_no_settings() -> None:
    assert wanted() == PromptSettings(None, None, {}, None, False, None, False)
    assert missing(wanted(), features()) is None


@pytest.mark.parametrize(("fields", "name", "offer"), [
    ({"mode": "plan"}, "plan_mode", {"plan_mode": True}), ({"mode": "plan"}, "plan_mode", {"modes": ["plan"]}),
    ({"model": "m"}, "model_switch", {"model_switch": True}), ({"options": {"thinking": "high"}}, "prompt_options",
    {"prompt_options": True}),
    ({"system_append": "x"}, "system_append", {"system_append": True}),
    ({"context": {"entries": []}}, "context_owner", {"context_owner": "gateway"}),
])
async def test_a_missing_ability_is_named(fields: dict[str, Any], name: str, offer: dict[str, Any]) -> None:
    agent: Any = Settable()
    assert missing(wanted(**fields), features()) == name
    with pytest.raises(SettingRefused, match=f"does not offer {name}"):
        await settle(agent, features(), wanted(**fields))
    assert agent.settings == []
    await settle(agent, features(**offer), wanted(**fields))
    assert agent.settings == [wanted(**fields)]


@pytest.mark.req("H-11")
async def test_a_prompt_for_an_asking_agent_is_refused_by_one_that_does_not_ask() -> None:
    agent: Any = Settable()
    with pytest.raises(NotAsking):
        await settle(agent, features(permission="never"), wanted(only_if_asks=True))
    await settle(agent, features(), wanted(only_if_asks=True))
    lapsed: Any = Lapsed()
    await settle(lapsed, features(permission="never"), wanted(only_if_asks=True))
    assert lapsed.settings, "one that may stop asking decides that itself"


def test_asking_follows_the_current_setting_or_the_agents_report() -> None:
    plain: Any = Settable()
    lapsed: Any = Lapsed()
    assert asks(plain, features())
    assert not asks(plain, features(permission="never"))
    assert not asks(lapsed, features())


def test_modes_are_switched_by_an_agent_that_has_modes() -> None:
    assert [switches(features()), switches(features(plan_mode=True)), switches(features(modes=["x"]))] == [
        False, True, True]
