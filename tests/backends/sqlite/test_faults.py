"""SQLite's errors as the port's: what callers receive for a full disk, an existing name and a damaged file."""

from __future__ import annotations

import apsw
import pytest

from interlock.backends.sqlite.faults import DatabaseDamaged, SqliteClosed, concerns_one_batch, translate
from interlock.ports.ledger import Full, LedgerError, NameTaken


@pytest.mark.parametrize(("error", "becomes", "alone"), [
    (apsw.FullError("full"), Full, False),
    (apsw.IOError("io"), Full, False),
    (apsw.BusyError("busy"), Full, False),
    (apsw.ReadOnlyError("ro"), Full, False),
    (apsw.ConstraintError("UNIQUE"), NameTaken, True),
    (apsw.CorruptError("bad"), DatabaseDamaged, False),
    (apsw.NotADBError("not"), DatabaseDamaged, False),
    (ValueError("odd"), LedgerError, True),
])
def test_each_error_becomes_the_ports_and_a_batch_fails_alone_for_its_own(
        error: Exception, becomes: type[LedgerError], alone: bool) -> None:
    assert type(translate(error)) is becomes
    assert concerns_one_batch(error) is alone


def test_an_error_of_the_port_stays_itself() -> None:
    closed = SqliteClosed("The ledger is closed.")

    assert translate(closed) is closed


def test_a_full_disk_and_a_damaged_file_have_their_own_remedies() -> None:
    assert "Free some space" in str(translate(apsw.FullError("x")))
    assert "Restore it from a backup" in str(translate(apsw.CorruptError("x")))
