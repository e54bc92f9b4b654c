"""A test whose needs are absent is skipped with the remedy, and fails if the machine must have everything."""

from __future__ import annotations

from pathlib import Path

import pytest

import installed


@pytest.fixture(params=sorted(installed.FINDERS))
def absent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an installation that cannot be found."""
    _, remedy = installed.FINDERS[request.param]
    monkeypatch.setitem(installed.FINDERS, request.param, (lambda: None, remedy))
    return request.param


def test_an_absent_installation_skips_with_one_line(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(installed.CI_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"^{absent} is not installed: [^\n]+$"):
        installed.require(absent)


def test_an_absent_installation_fails_if_every_installation_is_required(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(installed.CI_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match=f"^{absent} is not installed: "):
        installed.require(absent)


@pytest.mark.parametrize(("variable", "find"), [
    ("INTERLOCK_TEST_GOOSE", installed.find_goose), ("INTERLOCK_TEST_PI", installed.find_pi),
    ("INTERLOCK_TEST_ASYNCAPI", installed.find_asyncapi), ("INTERLOCK_TEST_NODE_MODULES", installed.find_llm_bridge),
])  # fmt: skip
def test_a_named_path_without_the_installation_is_not_replaced(
    variable: str, find: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    assert callable(find)
    assert find() is None


def test_an_empty_path_finds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    finders = (installed.find_node, installed.find_gemini, installed.find_pi, installed.find_llm_bridge)
    assert [find() for find in finders] == [None] * 4


@pytest.mark.usefixtures("goose")
def test_a_fixture_declares_the_installation_it_needs(request: pytest.FixtureRequest) -> None:
    assert [mark.args for mark in request.node.iter_markers("needs")] == [("goose",)]
