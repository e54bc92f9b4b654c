"""Paths that are hidden from every agent: this state directory and the usual one, each once (H-15)."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from interlock.app.hidden_paths import STAGED_NAME, boxing_of

pytestmark = pytest.mark.req("H-15")


def test_the_state_directories_are_hidden_under_their_real_names(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tmp_path / "usual"
    usual.mkdir()
    (tmp_path / "link").symlink_to(usual)
    monkeypatch.setattr(platformdirs, "user_state_path", lambda *_args, **_more: usual)

    other = boxing_of(tmp_path / "mine")
    same = boxing_of(tmp_path / "link")

    assert str(usual.resolve()) in other.hidden
    assert str((tmp_path / "mine").resolve()) in other.hidden
    assert same.hidden == (str(usual.resolve()),)


def test_changes_are_staged_below_the_runners_home_only(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()

    assert boxing_of(tmp_path, home).staged == str(home.resolve() / STAGED_NAME)
    assert boxing_of(tmp_path).staged == ""
