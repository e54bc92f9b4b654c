"""What an editor can set of a session (O-5)."""

from __future__ import annotations

import pytest

from interlock.doors.acp.settings import EditorSettings
from interlock.protocol.payloads import AgentSetting, AgentSettings, SettingValue

pytestmark = pytest.mark.req("O-5", "J-14")
REPORTED = AgentSettings(
    mode=AgentSetting(current="ask", values=[
        SettingValue(id="ask", name="Ask"), SettingValue(id="yolo", allowed=False)]),
    model=AgentSetting(current="small", values=[
        SettingValue(id="small", description="Cheap."), SettingValue(id="large")]),
    thinking=AgentSetting(current="low", values=[SettingValue(id="low"), SettingValue(id="high")]))


def reported(settings: AgentSettings | None = REPORTED, modes: tuple[str, ...] = ()) -> EditorSettings:
    found = EditorSettings()
    found.take(settings, modes)
    return found


def test_mode_model_and_thinking_are_config_options_without_forbidden_values() -> None:
    options = reported().config_options()
    assert [(one["id"], one["category"], one["currentValue"]) for one in options] == [
        ("mode", "mode", "ask"), ("model", "model", "small"), ("thinking", "thought_level", "low")]
    assert options[0]["options"] == [{"value": "ask", "name": "Ask"}]
    assert options[1]["options"] == [{"value": "small", "name": "small", "description": "Cheap."},
                                     {"value": "large", "name": "large"}]


def test_the_current_mode_is_listed_even_if_it_could_not_be_chosen() -> None:
    unsafe = AgentSettings(mode=AgentSetting(current="yolo", values=[SettingValue(id="yolo", allowed=False)]))
    assert reported(unsafe).modes() == {"currentModeId": "yolo", "availableModes": [{"id": "yolo", "name": "yolo"}]}


def test_the_editors_choice_is_kept_whatever_the_agent_reports() -> None:
    settings = reported()
    settings.choose("model", "large")
    settings.take(REPORTED)
    assert (settings.current("model"), settings.chosen) == ("large", {"model": "large"})


@pytest.mark.parametrize(("option", "value"), [("mode", "yolo"), ("model", "huge"), ("model", None), ("thinking", "")])
def test_an_unavailable_option_is_refused_with_a_sentence(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^The agent has no {option} .*\.$"):
        reported().choose(option, value)


def test_an_agent_that_reports_only_mode_ids_has_these_modes() -> None:
    settings = reported(None, ("ask", "plan"))
    assert (settings.known(), settings.current("mode")) == (["mode"], "ask")
    settings.choose("mode", "plan")
    assert settings.current("mode") == "plan"


def test_before_the_first_report_only_a_mode_is_accepted() -> None:
    settings = EditorSettings()
    settings.choose("mode", "plan")
    assert (settings.chosen, settings.config_options()) == ({"mode": "plan"}, [])
    with pytest.raises(ValueError, match="it has: none"):
        settings.choose("model", "large")
