"""Options that several verbs have: an empty path is refused, and another one is what was named (G-7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
from cyclopts import App

from interlock.cli.dispatch import dispatch
from interlock.cli.options import NAMED_DIRECTORY
from interlock.cli.verbs import build

pytestmark = pytest.mark.req("G-7")


@pytest.mark.parametrize("verb", [["run", "shell", "ls"], ["ci", "shell", "ls"], ["policy", "test", "shell", "ls"]])
def test_an_empty_workspace_is_refused_and_is_not_the_current_directory(
        verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch([*verb, "--workspace", ""]) == 2
    assert "The path is empty. Name a directory, or leave the option out." in capsys.readouterr().err


def _apps(app: App, words: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    yield " ".join(words), app
    for name in app:
        if not name.startswith("-"):
            yield from _apps(app[name], (*words, name))


@pytest.mark.req("Y-8")
def test_every_help_names_the_default_of_an_option_that_has_one() -> None:
    silent = [f"{verb} {argument.name}" for verb, app in _apps(build()) if app.default_command is not None
              for argument in app.assemble_argument_collection(parse_docstring=True)
              if isinstance(argument.field_info.default, str | int) and argument.field_info.default not in ("", False)
              and "default" not in str(argument.parameter.help)]
    assert silent == []


@pytest.mark.req("Y-8")
def test_no_help_shows_the_name_of_a_parameter_of_ours() -> None:
    assert [verb for verb, app in _apps(build()) if app.default_command is not None
            for argument in app.assemble_argument_collection() if argument.name.lower().endswith("_")] == []


@pytest.mark.parametrize(("words", "named"), [
    (["--workspace", "/w/x"], Path("/w/x")), (["--workspace", "."], Path()), ([], None)])
def test_a_named_directory_is_the_one_that_was_named(words: list[str], named: Path | None) -> None:
    app, received = App(), list[Path | None]()

    @app.default
    def verb(*, workspace: Annotated[Path | None, NAMED_DIRECTORY] = None) -> None:
        received.append(workspace)

    app(words, result_action="return_value")
    assert received == [named]
