"""How far an audit log may go beyond its last checkpoint (U-3): in a ledger's transactions, and in a check."""

from __future__ import annotations

import pytest

from interlock.command.audit.audit import TailBound, TailFull, noted_line, noted_size, overrun, write_noted
from interlock.protocol.clock import iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX, UNSIGNED_SPAN_MS_MAX

pytestmark = pytest.mark.req("U-3")
LINE = b'{"checkpoint":"a b\\n"}\n'


def bound() -> TailBound:
    made = TailBound()
    made.enforce()
    return made


def is_full(tail: TailBound, size: int, signed: int | None, more: int = 1) -> bool:
    noted = None if signed is None else write_noted(signed, LINE)
    try:
        tail.check("t", size, noted, more)
    except TailFull:
        return True
    return False


def test_a_written_fact_is_read_back() -> None:
    noted = write_noted(12, LINE)
    assert (noted_size(noted), noted_line(noted)) == (12, LINE)


@pytest.mark.parametrize("noted", [None, "", "x", "-1 {}", "\u0663 {}", "1.0 {}", " 1"])
def test_a_fact_without_a_size_has_none(noted: str | None) -> None:
    assert noted_size(noted) is None


def test_without_a_signer_nothing_is_bounded() -> None:
    assert not is_full(TailBound(), 10 * UNSIGNED_RECORDS_MAX, 0)


def test_records_are_accepted_up_to_the_bound_and_again_once_they_are_signed() -> None:
    tail = bound()
    assert not is_full(tail, UNSIGNED_RECORDS_MAX - 1, 0)
    assert is_full(tail, UNSIGNED_RECORDS_MAX, 0)
    assert is_full(tail, UNSIGNED_RECORDS_MAX - 5, 0, more=6)
    assert not is_full(tail, UNSIGNED_RECORDS_MAX - 5, 0, more=5)
    assert not is_full(tail, UNSIGNED_RECORDS_MAX, 1)


def test_no_log_begins_without_its_checkpoint_of_size_0() -> None:
    assert is_full(bound(), 0, None)


def test_a_log_already_over_the_bound_may_grow_by_one_record_only() -> None:
    tail = bound()
    found = 3 * UNSIGNED_RECORDS_MAX
    assert not is_full(tail, found, 0)
    assert not is_full(tail, found + UNSIGNED_RECORDS_MAX - 1, 0)
    assert is_full(tail, found + UNSIGNED_RECORDS_MAX, 0)
    deprived = bound()
    assert not is_full(deprived, 5, None)
    assert is_full(deprived, 5 + UNSIGNED_RECORDS_MAX, None)


def test_tenants_have_bounds_of_their_own() -> None:
    tail = bound()
    assert not is_full(tail, 3 * UNSIGNED_RECORDS_MAX, 0)
    with pytest.raises(TailFull, match="audit log of other has to be signed first") as caught:
        tail.check("other", 0, None)
    assert caught.value.tenant_id == "other"


@pytest.mark.req("U-5")
def test_a_check_names_the_first_record_past_the_unsigned_bound() -> None:
    assert overrun(3, 3 + UNSIGNED_RECORDS_MAX, []) is None
    found = overrun(3, 4 + UNSIGNED_RECORDS_MAX, [])
    assert found is not None
    assert found[0] == 4 + UNSIGNED_RECORDS_MAX


@pytest.mark.req("U-5")
@pytest.mark.parametrize(("times", "first"), [
    ([], None), ([iso(0), iso(UNSIGNED_SPAN_MS_MAX)], None), ([iso(0), iso(UNSIGNED_SPAN_MS_MAX + 1)], 12),
    ([iso(UNSIGNED_SPAN_MS_MAX + 1), iso(5), iso(0)], 13), ([iso(0), "soon"], 12), (["9" * 400], 11),
])
def test_times_too_far_apart_or_unreadable_are_named(times: list[str], first: int | None) -> None:
    found = overrun(10, 10 + len(times), times)
    assert (found and found[0]) == first
