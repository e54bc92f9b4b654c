"""Rules of all payloads: absent fields stay absent on the wire, and figures and turn ids have their bounds (W-1)."""

from __future__ import annotations

import msgspec
import pytest

from interlock.protocol.limits import LARGEST_SEQ
from interlock.protocol.payloads.base import Count, Payload, TurnId


class Sample(Payload, frozen=True, kw_only=True):
    count: Count
    turn_id: TurnId | None = None
    notes: list[str] = []  # noqa: RUF012 - a struct copies its default


ID = "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"


def read(count: str = "1", turn_id: str = ID) -> Sample:
    return msgspec.json.decode(f'{{"count": {count}, "turn_id": "{turn_id}"}}', type=Sample)


def test_a_field_at_its_default_is_not_written() -> None:
    assert msgspec.json.encode(Sample(count=0)) == b'{"count":0}'
    assert msgspec.json.encode(Sample(count=0, notes=["a"])) == b'{"count":0,"notes":["a"]}'


def test_two_payloads_share_no_default() -> None:
    one, other = Sample(count=1), Sample(count=1)
    one.notes.append("mine")
    assert other.notes == []


@pytest.mark.req("W-1")
@pytest.mark.parametrize("count", [0, 1, LARGEST_SEQ])
def test_a_count_is_bounded_by_the_stores_integers(count: int) -> None:
    assert read(str(count)).count == count


@pytest.mark.req("W-1")
@pytest.mark.parametrize("count", ["-1", str(LARGEST_SEQ + 1), "1.5", '"1"', "null", "true"])
def test_a_number_beyond_the_stores_integers_is_not_a_count(count: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.count"):
        read(count)


@pytest.mark.req("W-1")
@pytest.mark.parametrize("turn_id", [ID, ID.upper()])
def test_a_turn_is_named_by_a_uuid_of_version_4(turn_id: str) -> None:
    assert read(turn_id=turn_id).turn_id == turn_id


@pytest.mark.req("W-1")
@pytest.mark.parametrize("turn_id", ["", "t1", ID[:-1], ID + "0", ID + "\\n", ID.replace("-41d5", "-11d5"),
                                     ID.replace("-bff0", "-cff0"), "{" + ID + "}", ID.replace("-", "")])
def test_other_uuids_and_spellings_are_not_turn_ids(turn_id: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.turn_id"):
        read(turn_id=turn_id)
