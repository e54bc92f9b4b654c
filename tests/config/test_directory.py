"""The path of the state directory, and its permissions (G-2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.config.config_error import ConfigError
from interlock.config.directory import state_directory

pytestmark = pytest.mark.req("G-2")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_flag_takes_precedence_over_the_variable(tmp_path: Path) -> None:
    there = {"INTERLOCK_STATE": str(tmp_path / "variable")}
    assert state_directory(tmp_path / "flag", there) == tmp_path / "flag"
    assert state_directory(None, there) == tmp_path / "variable"
    assert state_directory("", there) == tmp_path / "variable"


def test_a_missing_directory_is_created_for_its_owner_only(tmp_path: Path) -> None:
    assert mode(state_directory(tmp_path / "a" / "b", {})) == 0o700


@pytest.mark.parametrize("held", [[], ["ledger.db", "notes.txt"], ["logs", "agents"], ["lost+found"]])
def test_our_own_directory_and_an_empty_one_are_closed_to_others(tmp_path: Path, held: list[str]) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    for name in held:
        (state / name).touch()
    assert mode(state_directory(state, {})) == 0o700


def test_a_directory_with_other_content_keeps_its_mode_and_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    (home / "thesis.pdf").touch()
    with pytest.raises(ConfigError, match="holds other things than a state directory"):
        state_directory(home, {})
    assert mode(home) == 0o755
    home.chmod(0o700)
    assert state_directory(home, {}) == home, "closed already: its owner has decided"


def test_a_file_and_a_world_writable_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file: the state directory is a file\. Name another one with --state"):
        state_directory(tmp_path / "file", {})
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(ConfigError, match="everybody may write there"):
        state_directory(shared, {})
    assert shared.stat().st_mode & 0o7777 == 0o1777
