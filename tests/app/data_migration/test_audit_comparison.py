"""Both sides' audit logs are compared record by record: a difference of one byte stops the move."""

from __future__ import annotations

import pytest

pytest.importorskip("asyncpg")

from interlock.app.data_migration.audit_comparison import End, agree
from interlock.app.data_migration.report import MoveRefused

LOG = End(3, "hash", "digest")


def test_equal_logs_are_counted() -> None:
    assert agree({"t1": LOG, "t2": End(2, "h", "d")}, {"t2": End(2, "h", "d"), "t1": LOG}) == 5
    assert agree({}, {}) == 0


@pytest.mark.parametrize("target", [
    {}, {"t1": LOG._replace(digest="other")}, {"t1": LOG._replace(records=2)}, {"t1": LOG._replace(last_hash="x")},
    {"t1": LOG, "t3": LOG}])
def test_a_missing_added_or_changed_log_is_named(target: dict[str, End]) -> None:
    with pytest.raises(MoveRefused, match=r"The audit log of t[13] did not arrive"):
        agree({"t1": LOG}, target)
