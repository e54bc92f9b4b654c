"""Gaps of a restored ledger are found again with every hello; each counts once."""

from __future__ import annotations

import pytest

from interlock.engine.setbacks import FINDINGS_KNOWN, SESSIONS_LISTED, Setbacks, merged
from interlock.protocol.answers import MissingSession, RestoredLedger

pytestmark = pytest.mark.req("H-5")


def lost(number: int, frames: int = 1, commands: int = 0) -> MissingSession:
    return MissingSession(session_id=f"s{number}", runner_id="r", frames=frames,
                          commands=[f"c{command}" for command in range(commands)])


def test_a_tenant_without_findings_shows_none() -> None:
    setbacks = Setbacks()
    setbacks.session("acme", lost(1))
    assert setbacks.of("other") is None
    found = setbacks.of("acme")
    assert found is not None
    assert [one.session_id for one in found.sessions] == ["s1"]


def test_a_hello_that_repeats_known_findings_is_not_reported() -> None:
    setbacks = Setbacks()
    assert setbacks.session("acme", lost(1, commands=2))
    assert not setbacks.session("acme", lost(1, commands=2))
    assert setbacks.session("acme", lost(1, frames=7)), "more is missing than was known"
    assert setbacks.session("other", lost(1, commands=2)), "another tenant's"
    found = setbacks.of("acme")
    assert found is not None
    assert (found.session_count, found.commands_closed) == (2, 2)


def test_sessions_beyond_the_listed_ones_are_counted_once_too() -> None:
    setbacks = Setbacks()
    for hello in range(3):
        reported = [setbacks.session("acme", lost(number, commands=1)) for number in range(SESSIONS_LISTED + 50)]
        assert reported == [hello == 0] * (SESSIONS_LISTED + 50)
    found = setbacks.of("acme")
    assert found is not None
    assert len(found.sessions) == SESSIONS_LISTED
    assert (found.session_count, found.commands_closed) == (SESSIONS_LISTED + 50, SESSIONS_LISTED + 50)


def test_the_stored_findings_are_bounded() -> None:
    setbacks = Setbacks()
    for number in range(FINDINGS_KNOWN):
        setbacks.session("acme", lost(number))
    assert setbacks.session("acme", lost(FINDINGS_KNOWN))
    assert setbacks.session("acme", lost(FINDINGS_KNOWN)), "beyond the bound each finding is news"
    assert not setbacks.session("acme", lost(0))


def test_missing_records_and_closed_commands_add_to_the_same_finding() -> None:
    setbacks = Setbacks()
    setbacks.records("acme", 9, 4)
    setbacks.commands("acme", 2)
    setbacks.session("acme", lost(1, commands=3))
    found = setbacks.of("acme")
    assert found is not None
    assert (found.records_signed, found.records_kept, found.commands_closed) == (9, 4, 5)


def test_a_tenant_is_held_until_it_is_released() -> None:
    setbacks = Setbacks()
    setbacks.hold("acme")
    setbacks.hold("acme")
    assert setbacks.held == {"acme"}
    setbacks.release("other")
    setbacks.release("acme")
    assert not setbacks.held


def test_the_findings_of_several_gateways_are_merged() -> None:
    assert merged([]) is None
    first = RestoredLedger(records_signed=9, records_kept=4, commands_closed=2, session_count=2,
                           sessions=[lost(1, commands=1), lost(2)])
    second = RestoredLedger(commands_closed=1, session_count=130, sessions=[lost(2), lost(2, frames=3), lost(4)])
    found = merged([second, first])
    assert found is not None
    assert (found.records_signed, found.records_kept, found.commands_closed) == (9, 4, 3)
    assert found.session_count == 131, "what both have found counts once"
    assert found.sessions == [lost(2), lost(2, frames=3), lost(4), lost(1, commands=1)]


def test_a_bounded_number_of_sessions_is_listed_for_many_findings() -> None:
    many = [RestoredLedger(session_count=SESSIONS_LISTED, sessions=[lost(at * SESSIONS_LISTED + number)
                                                                    for number in range(SESSIONS_LISTED)])
            for at in range(3)]
    found = merged(many)
    assert found is not None
    assert (found.session_count, len(found.sessions)) == (3 * SESSIONS_LISTED, SESSIONS_LISTED)
