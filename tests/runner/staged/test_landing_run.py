"""What an agent staged, and how it lands: each file as it was or as it was approved (H-17)."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from interlock.runner.staged.batch import MAX_BATCH_BYTES, MAX_BATCH_FILES, batches
from interlock.runner.staged.entries import ABSENT, FileChange, FileEntry
from interlock.runner.staged.file_moves import AFTERWARDS, MEANWHILE
from interlock.runner.staged.landing_run import chosen
from interlock.runner.staged.store import Staged
from runner.staged_overlay import Overlay, after_now, tree

pytestmark = [
    pytest.mark.req("H-17"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="making a whiteout needs root on Linux"),
]


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    return Overlay(tmp_path)


def found(staged: Staged) -> dict[str, str]:
    return {change.path: change.what for change in staged.look(after_now()).changes}


class TestDifference:
    def test_an_edit_an_addition_and_a_removal_are_found(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one\n", b_txt="two\n", c_txt="three\n")
        overlay.wrote("a.txt", "ONE\n")
        overlay.wrote("new/d.txt", "four\n")
        overlay.removed("b.txt")
        assert found(staged) == {"a.txt": "modified", "b.txt": "deleted", "new": "added", "new/d.txt": "added"}

    def test_a_copy_with_identical_content_is_not_a_change(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one\n")
        overlay.wrote("a.txt", "one\n")
        assert found(staged) == {}

    def test_modes_links_and_binary_files_are_found(self, overlay: Overlay) -> None:
        staged = overlay.begin(run_sh="#!/bin/sh\n", data_bin="x")
        overlay.wrote("run.sh", "#!/bin/sh\n", 0o755)
        overlay.wrote("data.bin", bytes(range(256)))
        overlay.linked("latest", "data.bin")
        changes = {change.path: change for change in staged.look(after_now()).changes}
        assert {path: change.what for path, change in changes.items()} == {
            "run.sh": "mode", "data.bin": "modified", "latest": "added"}
        assert (changes["latest"].new.kind, changes["run.sh"].new.mode) == ("link", 0o755)

    def test_a_rename_is_a_removal_and_an_addition(self, overlay: Overlay) -> None:
        staged = overlay.begin(old_py="print()\n")
        overlay.removed("old.py")
        overlay.wrote("new.py", "print()\n")
        assert found(staged) == {"new.py": "added", "old.py": "deleted"}

    def test_a_removed_directory_counts_with_its_whole_content(self, overlay: Overlay) -> None:
        staged = overlay.begin(lib__a_py="a", lib__in__b_py="b")
        overlay.removed("lib")
        assert found(staged) == {"lib": "deleted", "lib/a.py": "deleted", "lib/in": "deleted", "lib/in/b.py": "deleted"}

    def test_an_opaque_directory_hides_the_workspaces_entries(self, overlay: Overlay) -> None:
        staged = overlay.begin(lib__a_py="a", lib__b_py="b")
        overlay.made("lib", opaque=True)
        overlay.wrote("lib/a.py", "A")
        assert found(staged) == {"lib/a.py": "modified", "lib/b.py": "deleted"}

    def test_a_file_replaces_a_directory_and_a_directory_a_file(self, overlay: Overlay) -> None:
        staged = overlay.begin(one__a="a", two="b")
        overlay.wrote("one", "now a file")
        overlay.made("two", opaque=True)
        overlay.wrote("two/b", "b")
        assert found(staged) == {"one": "modified", "one/a": "deleted", "two": "modified", "two/b": "added"}

    def test_a_nested_repository_counts_as_plain_files(self, overlay: Overlay) -> None:
        staged = overlay.begin(vendor___git__HEAD="ref: refs/heads/main\n")
        overlay.wrote("vendor/.git/HEAD", "ref: refs/heads/other\n")
        overlay.wrote("vendor/.git/objects/ab/cd", b"x\x9c")
        assert "vendor/.git/HEAD" in found(staged)
        assert "vendor/.git/objects/ab/cd" in found(staged)

    def test_a_special_file_is_left_out_and_named(self, overlay: Overlay) -> None:
        staged = overlay.begin()
        os.mkfifo(staged.upper / "pipe")
        (Path(os.fsdecode(os.fsencode(staged.upper) + b"/\xff"))).write_text("x")
        left_out = {one.path: one.why for one in staged.look(after_now()).left_out}
        assert left_out == {"pipe": "it is neither a file, a link nor a directory", "\\xff": "its name is not UTF-8"}

    def test_the_digest_covers_every_content_and_mode(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one\n")
        overlay.wrote("a.txt", "ONE\n")
        first = staged.look(after_now()).digest
        overlay.wrote("a.txt", "ONE\n", 0o600)
        assert staged.look(after_now()).digest != first


class TestLanding:
    def test_all_changes_land_as_staged(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one", lib__b_py="b", lib__in__c_py="c", run_sh="x", swap__in="s", other="o")
        overlay.wrote("a.txt", "ONE", 0o600)
        overlay.removed("lib")
        overlay.wrote("run.sh", "x", 0o755)
        overlay.linked("link", "a.txt")
        overlay.wrote("new/deep/d.bin", bytes(range(256)))
        overlay.wrote("swap", "a file now")
        overlay.made("other", opaque=True)
        overlay.wrote("other/o", "a directory now")
        report = staged.land(staged.look(after_now()).changes)
        assert report.refused == []
        assert tree(overlay.workspace) == {
            "a.txt": "ONE", "run.sh": "x", "link": "-> a.txt", "new": "directory", "new/deep": "directory",
            "new/deep/d.bin": bytes(range(256)).decode("latin-1"), "swap": "a file now", "other": "directory",
            "other/o": "a directory now"}
        assert stat.S_IMODE((overlay.workspace / "run.sh").stat().st_mode) == 0o755
        assert stat.S_IMODE((overlay.workspace / "a.txt").stat().st_mode) == 0o600
        assert found(staged) == {}

    def test_one_file_lands_with_its_parent_directory(self, overlay: Overlay) -> None:
        staged = overlay.begin()
        overlay.wrote("new/a", "a")
        overlay.wrote("new/b", "b")
        overlay.wrote("c", "c")
        staged.land(chosen(staged.look(after_now()).changes, ["new/a"]))
        assert tree(overlay.workspace) == {"new": "directory", "new/a": "a"}
        assert found(staged) == {"new/b": "added", "c": "added"}

    def test_a_file_that_the_user_changed_is_refused_and_the_others_land(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one", b_txt="two", c_txt="three")
        overlay.wrote("a.txt", "ONE")
        overlay.wrote("b.txt", "TWO")
        overlay.wrote("new.txt", "agent's")
        overlay.removed("c.txt")
        changes = staged.look(after_now()).changes
        (overlay.workspace / "a.txt").write_text("mine")
        (overlay.workspace / "c.txt").chmod(0o600)
        (overlay.workspace / "new.txt").write_text("mine, too")
        report = staged.land(changes)
        assert {one.path: one.why for one in report.refused} == dict.fromkeys(["a.txt", "c.txt", "new.txt"], MEANWHILE)
        assert tree(overlay.workspace) == {"a.txt": "mine", "b.txt": "TWO", "c.txt": "three", "new.txt": "mine, too"}

    def test_a_file_that_the_user_changed_before_the_first_look_is_refused(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one")
        staged.look(0)
        overlay.wrote("a.txt", "ONE")
        (overlay.workspace / "a.txt").write_text("mine")
        changes = staged.look(0).changes
        report = staged.land(changes)
        assert [(one.path, one.why) for one in report.refused] == [("a.txt", MEANWHILE)]
        assert (overlay.workspace / "a.txt").read_text() == "mine"

    def test_changes_of_the_agent_after_the_question_do_not_land(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one")
        overlay.wrote("a.txt", "shown")
        changes = staged.look(after_now()).changes
        overlay.wrote("a.txt", "never shown")
        assert [one.why for one in staged.land(changes).refused] == [AFTERWARDS]
        assert tree(overlay.workspace) == {"a.txt": "one"}

    def test_the_users_edit_of_a_landed_file_is_not_a_change_of_the_agent(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one")
        overlay.wrote("a.txt", "two")
        staged.land(staged.look(after_now()).changes)
        (overlay.workspace / "a.txt").write_text("three")
        assert found(staged) == {}
        staged.prepare(after_now())
        assert not (staged.upper / "a.txt").exists()

    @pytest.mark.parametrize("swap", ["directory", "file"])
    def test_a_link_that_is_swapped_in_is_not_followed(self, overlay: Overlay, tmp_path: Path, swap: str) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "a.txt").write_text("one")
        staged = overlay.begin(sub__a_txt="one", sub__gone="x")
        overlay.wrote("sub/a.txt", "ONE")
        overlay.removed("sub/gone")
        changes = staged.look(after_now()).changes
        (outside / "gone").write_text("x")
        if swap == "directory":
            shutil.rmtree(overlay.workspace / "sub")
            (overlay.workspace / "sub").symlink_to(outside)
        else:
            (overlay.workspace / "sub/a.txt").unlink()
            (overlay.workspace / "sub/a.txt").symlink_to(outside / "a.txt")
        report = staged.land(changes)
        assert "sub/a.txt" in {one.path for one in report.refused}
        assert tree(outside) == {"a.txt": "one", "gone": "x"}

    def test_a_staged_link_to_another_path_is_not_followed(self, overlay: Overlay, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("key")
        staged = overlay.begin()
        overlay.wrote("a.txt", "shown")
        changes = staged.look(after_now()).changes
        (staged.upper / "a.txt").unlink()
        (staged.upper / "a.txt").symlink_to(secret)
        assert [one.why for one in staged.land(changes).refused] == [AFTERWARDS]
        assert tree(overlay.workspace) == {}

    def test_a_full_disk_leaves_the_file_unchanged(self, overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
        staged = overlay.begin(a_txt="one", b_txt="two")
        overlay.wrote("a.txt", "ONE" * 10)
        overlay.wrote("b.txt", "")
        changes = staged.look(after_now()).changes
        with monkeypatch.context() as full:
            full.setattr(os, "write", lambda *_: _raise(errno.ENOSPC))
            report = staged.land(changes)
        assert [(one.path, one.why) for one in report.refused] == [
            ("a.txt", "it could not be written: No space left on device")]
        assert tree(overlay.workspace) == {"a.txt": "one", "b.txt": ""}
        assert found(staged) == {"a.txt": "modified"}

    def test_no_file_is_moved_into_place_before_it_is_synced_to_disk(
            self, overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
        staged = overlay.begin(**{f"old{number}": "one" for number in range(5)})
        for number in range(MAX_BATCH_FILES):
            overlay.wrote(f"new{number}", str(number))
        for number in range(5):
            overlay.wrote(f"old{number}", "ONE")
        synced: set[int] = set()
        early: list[str] = []
        sync = os.fsync

        def noted(descriptor: int) -> None:
            sync(descriptor)
            synced.add(os.fstat(descriptor).st_ino)

        def moved(step: str) -> None:
            if step == "moved":
                early.extend(path.name for path in overlay.workspace.iterdir()
                             if not path.name.startswith(".interlock-")
                             and path.read_text() != "one" and path.stat().st_ino not in synced)

        changes = staged.look(after_now()).changes
        monkeypatch.setattr(os, "fsync", noted)
        assert len(staged.land(changes, moved).done) == MAX_BATCH_FILES + 5
        assert early == []
        assert overlay.workspace.stat().st_ino in synced

    def test_a_batch_is_bounded_by_files_and_by_bytes(self) -> None:
        small = [FileChange(str(number), ABSENT, FileEntry("file", 0o644, 1)) for number in range(MAX_BATCH_FILES + 1)]
        large = [FileChange(f"large{number}", ABSENT, FileEntry("file", 0o644, MAX_BATCH_BYTES)) for number in range(2)]
        assert [len(batch) for batch in batches([*small, *large])] == [MAX_BATCH_FILES, 1, 1, 1]

    def test_a_file_without_space_is_tried_again_after_the_others_have_landed(
            self, overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
        staged = overlay.begin(a_txt="one", b_txt="two")
        overlay.wrote("a.txt", "ONE")
        overlay.wrote("b.txt", "TWO")
        changes = staged.look(after_now()).changes
        write = os.write

        def crowded(descriptor: int, piece: memoryview) -> int:
            if bytes(piece) == b"TWO" and (overlay.workspace / "a.txt").read_text() == "one":
                _raise(errno.ENOSPC)
            return write(descriptor, piece)

        with monkeypatch.context() as full:
            full.setattr(os, "write", crowded)
            report = staged.land(changes)
        assert report.refused == []
        assert tree(overlay.workspace) == {"a.txt": "ONE", "b.txt": "TWO"}

    @pytest.mark.parametrize("swap", ["link", "directory", "file", "made"])
    def test_an_entry_that_is_swapped_in_before_the_move_is_left_alone(
            self, overlay: Overlay, tmp_path: Path, swap: str) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        staged = overlay.begin(sub__a_txt="one", kept="k")
        (outside / "a.txt").write_text("one")
        overlay.wrote("sub/a.txt", "ONE")
        overlay.wrote("sub/new.txt", "NEW")
        overlay.wrote("kept", "KEPT")
        changes = staged.look(after_now()).changes

        def swapped(step: str) -> None:
            if step != "batch synced":
                return
            sub = overlay.workspace / "sub"
            if swap in ("link", "directory"):
                sub.rename(overlay.workspace / "aside")
                sub.symlink_to(outside) if swap == "link" else shutil.copytree(outside, sub)
            elif swap == "file":
                (sub / "a.txt").unlink()
                (sub / "a.txt").symlink_to(outside / "a.txt")
            else:
                (sub / "new.txt").symlink_to(outside / "made")

        report = staged.land(changes, swapped)
        refused = {"link": {"sub/a.txt", "sub/new.txt"}, "directory": {"sub/a.txt", "sub/new.txt"},
                   "file": {"sub/a.txt"}, "made": {"sub/new.txt"}}[swap]
        assert {one.path for one in report.refused} == refused
        assert tree(outside) == {"a.txt": "one"}
        assert (overlay.workspace / "kept").read_text() == "KEPT"
        assert not list(overlay.workspace.rglob(".interlock-*"))

    def test_twenty_thousand_files_land(self, overlay: Overlay) -> None:
        staged = overlay.begin()
        for number in range(20_000):
            if number % 1_000 == 0:
                (staged.upper / f"{number // 1_000}").mkdir()
            (staged.upper / f"{number // 1_000}/{number}").write_text(str(number))
        assert len(staged.look(after_now()).changes) == 20_020


STEPS = 400


class _Killed(BaseException):
    pass


def test_a_kill_after_any_step_leaves_each_file_in_its_former_or_approved_state(tmp_path: Path) -> None:
    """Every step is followed by a kill once; the next start completes the landing."""
    kills = 0
    for kill_at in range(STEPS):
        at = tmp_path / str(kill_at)
        at.mkdir()
        overlay = Overlay(at)
        staged = overlay.begin(a_txt="one", lib__b_py="b", swap__in="s", other="o", gone="g")
        overlay.wrote("a.txt", "ONE")
        overlay.removed("gone")
        overlay.removed("lib")
        overlay.linked("link", "a.txt")
        overlay.wrote("new/d", "d")
        overlay.wrote("swap", "a file now")
        overlay.made("other", opaque=True)
        overlay.wrote("other/o", "a directory now")
        before = tree(overlay.workspace)
        changes = staged.look(after_now()).changes
        left = kill_at

        def step(_name: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise _Killed

        try:
            staged.land(changes, step)
        except _Killed:
            kills += 1
            again = Staged(at / "state", "ses_1", str(overlay.workspace))
            between = {name: text for name, text in tree(overlay.workspace).items()
                       if not name.startswith(".interlock-")}
            report = again.resume()
            assert report is not None
            assert report.refused == []
            again.reported()
            assert again.resume() is None
        else:
            between = {}
        after = tree(overlay.workspace)
        assert after == {"a.txt": "ONE", "link": "-> a.txt", "new": "directory", "new/d": "d", "swap": "a file now",
                         "other": "directory", "other/o": "a directory now"}
        for name, text in between.items():
            assert text in (before.get(name), after.get(name))
        if not between:
            break
    assert kills > 20


class TestDiscarding:
    def test_a_chosen_file_and_then_all_files_land(self, overlay: Overlay) -> None:
        staged = overlay.begin(a_txt="one", b_txt="two", lib__c="c")
        overlay.wrote("a.txt", "ONE")
        overlay.removed("b.txt")
        overlay.removed("lib")
        overlay.wrote("new/d", "d")
        assert staged.discard(["b.txt", "new"], after_now()).refused == []
        assert found(staged) == {"a.txt": "modified", "lib": "deleted", "lib/c": "deleted"}
        assert len(staged.discard(None, after_now()).done) == 3
        assert found(staged) == {}
        assert tree(overlay.workspace)["a.txt"] == "one"

    def test_entries_below_a_removed_or_replaced_directory_are_removed_with_it(self, overlay: Overlay) -> None:
        staged = overlay.begin(lib__c="c", other__d="d")
        overlay.removed("lib")
        overlay.made("other", opaque=True)
        refused = {one.path: one.why for one in staged.discard(["lib/c", "other/d", "none"], after_now()).refused}
        assert refused == {"lib/c": "a directory above it was deleted or replaced; discard that",
                           "other/d": "the directory other was replaced; discard that",
                           "none": "nothing of it is staged"}
        assert staged.discard(["lib", "other"], after_now()).refused == []
        assert found(staged) == {}


def _raise(number: int) -> int:
    raise OSError(number, os.strerror(number))
