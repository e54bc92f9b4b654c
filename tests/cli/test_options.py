"""Options that several verbs have: an empty path is refused, and another one is what was named (G-7)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from cyclopts import App

from interlock.cli.dispatch import dispatch
from interlock.cli.options import NAMED_DIRECTORY

pytestmark = pytest.mark.req("G-7")


@pytest.mark.parametrize("verb", [["run", "shell", "ls"], ["ci", "shell", "ls"], ["policy", "test", "shell", "ls"]])
def test_an_empty_workspace_is_refused_and_is_not_the_current_directory(
        verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch([*verb, "--workspace", ""]) == 2
    assert "The path is empty. Name a directory, or leave the option out." in capsys.readouterr().err


@pytest.mark.parametrize(("words", "named"), [
    (["--workspace", "/w/x"], Path("/w/x")), (["--workspace", "."], Path()), ([], None)])
def test_a_named_directory_is_the_one_that_was_named(words: list[str], named: Path | None) -> None:
    app, received = App(), list[Path | None]()

    @app.default
    def verb(*, workspace: Annotated[Path | None, NAMED_DIRECTORY] = None) -> None:
        received.append(workspace)

    app(words, result_action="return_value")
    assert received == [named]
