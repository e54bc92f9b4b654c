"""The table of checked agents equals its data (H-10)."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from interlock.agents.evidence import Evidence, ToolEvidence

HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("checked_agents", HOW_TO / "checked_agents.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.req("H-10", "H-14")
def test_the_page_equals_its_data(generator: ModuleType) -> None:
    text = generator.PAGE.read_text("utf-8")

    assert generator.page(text, generator.records()) == text, "run: python docs/how-to/checked_agents.py"


def test_each_record_has_its_version_and_its_date(generator: ModuleType) -> None:
    found: dict[str, Evidence] = generator.records()

    assert len(found) >= 13
    for one in found.values():
        assert one.version
        assert re.match(r"2\d{3}-\d\d-\d\dT", one.checked)


def test_a_record_that_differs_changes_the_page(generator: ModuleType) -> None:
    worse = Evidence(agent_id="goose", verdict="command", because="It ran shell without a question.", version="9",
                     checked="2031-01-02T00:00:00Z", digest="", tools=[ToolEvidence(tool="shell", state="ran unasked")])
    rows = list(generator.table({"goose": worse}))

    assert rows[2] == ("| goose 9 | command | **unasked** | ? | ? | ? | ? | ? | ? | – | "
                       "It ran shell without a question. |")
    assert "Checked on 2031-01-02." in rows[4]


def test_an_untested_feature_is_not_shown_as_missing(generator: ModuleType) -> None:
    slow = Evidence(agent_id="goose", verdict="asks", because="It asked.", version="9", checked="2031-01-02T00:00:00Z",
                    digest="", cut_short=True, tools=[
                        ToolEvidence(tool="shell", state="asked", shown="input"),
                        ToolEvidence(tool="fetch", state="not tried"),
                        ToolEvidence(tool="MCP tool", state="not offered")])
    rows = list(generator.table({"goose": slow}))

    assert rows[2].startswith("| goose 9 | asks | asked | ? | ? | ? | ? | – | ? | input |")
    assert "“?” means: not tried." in rows[4]


def test_a_page_without_its_markers_is_refused(generator: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"agents\.md has no <!-- checked: begin -->"):
        generator.page("nothing", {})
