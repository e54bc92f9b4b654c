"""Mistakes of a config, found before it is used: its form, its adapters, and the secrets that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.registry import ADAPTERS
from interlock.cli.config.config_mistakes import mistakes_of
from interlock.config import FILE_NAME

pytestmark = pytest.mark.req("G-1")


def mistakes(state: Path, text: str) -> list[str]:
    (state / FILE_NAME).write_text(text)
    return mistakes_of(state)


def test_no_config_and_an_empty_one_have_no_mistakes(tmp_path: Path) -> None:
    assert mistakes_of(tmp_path) == []
    assert mistakes(tmp_path, "") == []
    assert mistakes(tmp_path, "\ufeff[agents.x]\nadapter = \"builtin\"\n") == []


def test_invalid_toml_is_named_with_its_line_and_nothing_else_is_checked(tmp_path: Path) -> None:
    [sentence] = mistakes(tmp_path, '[agents.x]\nadapter = "none"\n[hooks\n')
    assert sentence.startswith(f"{tmp_path / FILE_NAME}:3:")


@pytest.mark.req("A-7")
def test_an_unknown_adapter_is_named_with_its_line_and_the_nearest_name(tmp_path: Path) -> None:
    near, far = mistakes(tmp_path, '[agents.x]\nadapter = "bulitin"\n\n[agents.y]\nadapter = "qqqqqq"\n')
    assert near == f'{tmp_path / FILE_NAME}:2: there is no adapter "bulitin"; did you mean "builtin"?'
    assert far.startswith(f'{tmp_path / FILE_NAME}:5: there is no adapter "qqqqqq"; known: ')


@pytest.mark.req("A-7")
def test_an_agent_without_its_adapters_program_is_named_with_its_line(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "".join(f'[agents.{name}]\nadapter = "{name}"\n' for name in ADAPTERS))
    line = {name: 2 * number for number, name in enumerate(ADAPTERS, 1)}
    assert found == [f"{tmp_path / FILE_NAME}:{line[name]}: [agents.{name}] has no `command`, the program that the "
                     f'adapter "{name}" starts; set it there.' for name in ("acp", "dps", "exec")]
    assert mistakes(tmp_path, '[agents.x]\nadapter = "acp"\ncommand = "goose"\n') == []


def test_secrets_in_files_are_checked_and_those_in_variables_are_left_to_the_gateway(tmp_path: Path) -> None:
    text = '[hooks.a]\nsecret_file = "none"\n[hooks.b]\nsecret_env = "SURELY_NOT_SET_HERE"\n'
    [sentence] = mistakes(tmp_path, text)
    assert sentence.startswith("[hooks.a]: secret_file ")
    (tmp_path / "none").write_text("s" * 16)
    assert mistakes(tmp_path, text) == []


def test_each_kind_of_mistake_is_reported(tmp_path: Path) -> None:
    found = mistakes(tmp_path, '[agents.x]\nadapter = "none at all"\n[hooks.a]\nsecret_file = "none"\n')
    assert [("adapter" in sentence, "[hooks.a]" in sentence) for sentence in found] == [(True, False), (False, True)]
