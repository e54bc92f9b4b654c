"""An agent's settings are computed again only when they change: they are read after each of its messages."""

from __future__ import annotations

import pytest

from interlock.agents.acp.choices import Choices
from interlock.agents.acp.wire import LOADED_SESSION

pytestmark = pytest.mark.req("J-14")


def choices() -> Choices:
    loaded = LOADED_SESSION.decode(b"""{
        "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"},
                                                               {"id": "yolo", "name": "Y"}]},
        "models": {"currentModelId": "small", "availableModels": [{"modelId": "small", "name": "S"},
                                                                  {"modelId": "large", "name": "L"}]}}""")
    assert loaded is not None
    return Choices(loaded, trusted_modes=("yolo",))


def test_settings_are_the_same_object_until_one_changes() -> None:
    offered = choices()
    before = offered.settings
    assert offered.settings is before
    offered.reported("mode", "ask")
    assert offered.settings is before
    offered.reported("mode", "yolo")
    assert before.mode is not None
    assert before.mode.current == "ask"
    assert offered.settings.mode is not None
    assert offered.settings.mode.current == "yolo"


def test_a_change_of_what_the_default_mode_means_changes_the_choices() -> None:
    offered = choices()
    before = offered.settings
    offered.open_in("yolo")
    assert offered.settings is not before


def test_a_withdrawn_setting_is_reported_with_its_former_value() -> None:
    offered = choices()
    before = offered.settings
    with offered.calling(offered.switch("yolo")[0]):
        during = offered.settings
    with offered.calling(offered.switch("ask")[0]):
        pass
    assert during != before
    assert offered.settings == before
