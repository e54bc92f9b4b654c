"""Which approvals a terminal printed (Y-3): each terminal its own, within bounds, and a lost file is only stricter."""

from pathlib import Path

import pytest

from interlock.cli.approvals.seen_approvals import IDS_KEPT, SEEN_FILE, TERMINALS_KEPT, SeenApprovals

pytestmark = pytest.mark.req("Y-3")


def test_a_terminal_knows_its_own_output_only(tmp_path: Path) -> None:
    one, other = SeenApprovals(tmp_path, "tty1 1"), SeenApprovals(tmp_path, "tty2 1")
    assert one.printed() is None
    one.add(["a", "b"])
    one.add(["b", "c"])
    assert SeenApprovals(tmp_path, "tty1 1").printed() == {"a", "b", "c"}
    assert other.printed() is None
    other.add([])
    assert other.printed() == frozenset(), "a list without approvals was printed"
    assert (tmp_path / SEEN_FILE).stat().st_mode & 0o777 == 0o600


def test_the_oldest_ids_and_terminals_are_removed(tmp_path: Path) -> None:
    first = SeenApprovals(tmp_path, "first")
    first.add(str(number) for number in range(IDS_KEPT + 1))
    printed = first.printed() or frozenset()
    assert len(printed) == IDS_KEPT
    assert "0" not in printed
    for number in range(TERMINALS_KEPT):
        SeenApprovals(tmp_path, f"t{number}").add(["x"])
    assert first.printed() is None


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"t":7}', b"\xff"])
def test_a_broken_file_counts_as_nothing_printed(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / SEEN_FILE).write_bytes(raw)
    assert SeenApprovals(tmp_path, "t").printed() is None
    SeenApprovals(tmp_path, "t").add(["a"])
    assert SeenApprovals(tmp_path, "t").printed() == {"a"}
