"""A landing beside a user who saves at the same time, and hostile files (H-17)."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.runner.staged import batch, landing_run
from interlock.runner.staged.entries import MAX_FILE_BYTES, opened
from interlock.runner.staged.file_moves import MEANWHILE
from interlock.runner.staged.store import Staged
from runner.staged_overlay import Overlay, after_now, tree

pytestmark = [
    pytest.mark.req("H-17"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="making a whiteout needs root on Linux"),
]


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    return Overlay(tmp_path)


class _Killed(BaseException):
    pass


def landed(staged: Staged, step: str, act: Callable[[], object]) -> dict[str, str]:
    """Land all, with something done at the first such step; returns what was refused."""
    left = [act]

    def after(now: str) -> None:
        if now == step and left:
            left.pop()()

    report = staged.land(staged.look(after_now()).changes, after)
    assert not left, "the step came"
    return {one.path: one.why for one in report.refused}


def save(path: Path, text: str) -> None:
    """Save as most editors do: a new file takes the old one's name."""
    beside = path.with_name(f"{path.name}~")
    beside.write_text(text)
    beside.replace(path)


class TestRaces:
    """The user saves between the last look at a file and the call that replaces it."""

    def test_a_save_over_a_replaced_file_is_kept(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one")
        overlay.wrote("a.txt", "ONE")
        assert landed(staged, "checked", lambda: save(overlay.workspace / "a.txt", "mine")) == {"a.txt": MEANWHILE}
        assert tree(overlay.workspace) == {"a.txt": "mine"}

    @pytest.mark.parametrize("step", ["checked", "exchanged"])
    def test_a_write_into_a_replaced_file_is_kept(self, overlay: Overlay, step: str) -> None:
        staged = overlay.begin(a_txt="one")
        overlay.wrote("a.txt", "ONE")
        with (overlay.workspace / "a.txt").open("r+") as held:
            refused = landed(staged, step, lambda: (held.write("mine"), held.flush()))
        assert refused == {"a.txt": MEANWHILE}
        assert tree(overlay.workspace) == {"a.txt": "mine"}

    def test_a_save_into_a_removed_file_is_kept(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one")
        overlay.removed("a.txt")
        assert landed(staged, "checked", lambda: save(overlay.workspace / "a.txt", "mine")) == {"a.txt": MEANWHILE}
        assert tree(overlay.workspace) == {"a.txt": "mine"}

    @pytest.mark.parametrize("kind", ["link", "directory", "file"])
    def test_a_file_created_at_the_path_of_an_addition_is_kept(self, overlay: Overlay, kind: str) -> None:
        staged = overlay.begin(a_txt="one")
        {"link": lambda: overlay.linked("new", "a.txt"), "directory": lambda: overlay.made("new"),
         "file": lambda: overlay.wrote("new", "x")}[kind]()
        assert landed(staged, "checked", lambda: (overlay.workspace / "new").write_text("mine")) == {"new": MEANWHILE}
        assert tree(overlay.workspace) == {"a.txt": "one", "new": "mine"}

    def test_a_file_created_in_a_directory_that_becomes_a_file_is_kept(self, overlay: Overlay) -> None:
        staged = overlay.begin(d__a="x")
        overlay.wrote("d", "a file now")
        refused = landed(staged, "checked", lambda: (overlay.workspace / "d/mine").write_text("mine"))
        assert list(refused) == ["d"]
        assert tree(overlay.workspace) == {"d": "directory", "d/mine": "mine"}

    @pytest.mark.parametrize("step", ["exchanged", "taken away"])
    def test_after_a_kill_following_a_save_the_user_has_the_saved_file(self, overlay: Overlay, step: str) -> None:
        staged = overlay.begin(a_txt="one")
        path = overlay.workspace / "a.txt"
        if step == "exchanged":
            overlay.wrote("a.txt", "ONE")
        else:
            overlay.removed("a.txt")

        def after(now: str) -> None:
            if now == "checked":
                save(path, "mine")
            if now == step:
                raise _Killed

        # A kill runs nothing more: what tidies up behind an error must not.
        changes = staged.look(after_now()).changes
        with pytest.MonkeyPatch.context() as dead:
            for module in (batch, landing_run):
                dead.setattr(module, "tidy", lambda *_: None)
            with pytest.raises(_Killed):
                staged.land(changes, after)
        report = staged.resume()
        assert report is not None
        assert [one.why for one in report.refused] == [MEANWHILE]
        assert tree(overlay.workspace) == {"a.txt": "mine"}


class TestHostileFiles:
    def test_a_setuid_program_never_lands(self, overlay: Overlay) -> None:
        staged = overlay.begin(old="x")
        overlay.wrote("new", "x", 0o4755)
        overlay.wrote("old", "x", 0o2755)
        overlay.wrote("plain", "x", 0o755)
        seen = staged.look(after_now())
        assert [one.path for one in seen.changes] == ["plain"]
        assert {one.path for one in seen.left_out} == {"new", "old"}

    def test_a_sparse_file_does_not_delay_the_turn(self, overlay: Overlay) -> None:
        staged = overlay.begin()
        overlay.wrote("holes", "")
        os.truncate(staged.upper / "holes", MAX_FILE_BYTES + 1)
        seen = staged.look(after_now())
        assert (seen.changes, [one.path for one in seen.left_out]) == ([], ["holes"])

    def test_a_directory_whose_mode_changes_is_not_swapped_for_the_target_of_a_link(
            self, overlay: Overlay, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir(mode=0o700)
        staged = overlay.begin(d__a="x")
        overlay.made("d", 0o777)
        shutil.rmtree(overlay.workspace / "d")
        (overlay.workspace / "d").symlink_to(outside)
        with opened(overlay.workspace) as root, pytest.raises(OSError, match="Not a directory"):
            landing_run._set_mode(root, "d", 0o777)  # pyright: ignore[reportPrivateUsage]
        assert stat.S_IMODE(outside.stat().st_mode) == 0o700
        assert list(staged.look(after_now()).bases) == ["d"]
