"""A row of an approval matches its audit record, or it is refused with the difference (H-5)."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from interlock.command.audit.audit import leaf_hash
from interlock.command.audit.record_seal import BrokenRecord, SealedFields, changed_approval, read, terms
from interlock.protocol.box import Box
from interlock.protocol.records import ApprovalRecord, AuditRecord
from interlock.protocol.resources import Actor, Approval, OfferedOption, Quorum, Vote

pytestmark = pytest.mark.req("H-5")
INPUT = b'{"command":"make"}'
DIGEST = hashlib.sha256(INPUT).hexdigest()
OPTIONS = [OfferedOption(option_id=kind, label=kind, kind=kind)
           for kind in ("allow_once", "allow_always", "reject_once")]


def approved(**fields: Any) -> ApprovalRecord:
    """An approval that ann granted, with the option that she named."""
    given: dict[str, Any] = {
        "id": "apr_1", "tenant_id": "acme", "door": "tool", "state": "granted", "created_at": "", "expires_at": "",
        "title": "make", "agent_id": "shell", "session_id": "s", "command_id": "cmd_1", "digest": DIGEST,
        "input": msgspec.Raw(INPUT), "rule": "ask", "options": OPTIONS, "option_id": "allow_once",
        "votes": [Vote(by="user:ann", at="", decision="grant", method="acl", role="approver", option_id="allow_once")]}
    return ApprovalRecord(approval=Approval(**given | fields), expires_ms=9)


def sealed(action: str, who: str = "system:gateway", role: str = "system", **meta: Any) -> SealedFields:
    return SealedFields(action=action, who={"id": who, "role": role}, approval_id="apr_1", command_id="cmd_1",
    meta=meta)


def opening(record: ApprovalRecord, to: str = "pending") -> SealedFields:
    return sealed("enqueue", door="tool", rule="ask", to=to, digest=DIGEST, terms=terms(record))


def vote(who: str = "user:ann", role: str = "approver", **meta: Any) -> SealedFields:
    return sealed("vote", who, role, **{"decision": "grant", "digest": DIGEST, "option_id": "allow_once"} | meta)


LOG = (opening(approved()), vote(), sealed("approve", "user:ann", "approver", door="tool", to="granted", digest=DIGEST))


def test_a_row_that_matches_its_record_is_accepted() -> None:
    assert changed_approval(approved(), LOG) is None


@pytest.mark.parametrize(("fields", "difference"), [
    ({"input": msgspec.Raw(b'{"command":"rm"}')}, "its digest or what it covers"),
    ({"digest": "0" * 64}, "its digest or what it covers"), ({"subject": msgspec.Raw(b"{}")},
    "its digest or what it covers"),
    ({"door": "command"}, "its door or rule"), ({"rule": "other"}, "its door or rule"),
    ({"required": 0}, "its required is"), ({"groups": [Quorum(role="admin", min=1)]}, "its groups is"),
    ({"deny_threshold": 9}, "its deny_threshold is"), ({"signed": True}, "its signed is"),
    ({"require_independent": True}, "its require_independent is"), ({"dangerous": True}, "its dangerous is"),
    ({"self_approval": False}, "its self_approval is"), ({"kind": "question"}, "its kind is"),
    ({"requested_by": Actor(type="user", id="eve")}, "its requested_by is"),
    ({"driver": Actor(type="user", id="eve")}, "its driver is"), ({"interaction_id": "i"}, "its interaction_id is"),
    ({"supersedes": "apr_0"}, "its supersedes is"), ({"box": Box(walls="none")}, "its box is"),
    ({"title": "harmless"}, "its shown is"), ({"workspace": "/elsewhere"}, "its shown is"), ({"options": []},
    "its shown is"),
    ({"required": 0, "dangerous": True}, "its required and dangerous is"),
    ({"state": "denied"}, "it is denied, and was recorded as granted"), ({"id": "apr_2"},
    "no audit record of its opening"),
])
def test_a_changed_row_is_refused_with_the_difference(fields: dict[str, Any], difference: str) -> None:
    assert difference in (changed_approval(approved(**fields), LOG) or "")


def test_a_later_expiry_is_a_change_too() -> None:
    assert changed_approval(msgspec.structs.replace(approved(), expires_ms=99), LOG) == \
        "its expires_ms is not the recorded one"


@pytest.mark.parametrize(("fields", "difference"), [
    ({"by": "user:eve"}, "its votes are not"), ({"decision": "deny"}, "its votes are not"),
    ({"role": "admin"}, "its votes are not"), ({"key_id": "k"}, "its votes are not"),
    ({"withdrawn_at": "now"}, "its votes are not"), ({"key_made_by": "user:eve"}, "who made the keys"),
    ({"key_makers": ["user:eve"]}, "the makers of the keys"), ({"option_id": "allow_always"},
    "the options that its votes"),
    ({"option_id": None}, "the options that its votes"),
])
def test_a_changed_vote_is_refused(fields: dict[str, Any], difference: str) -> None:
    changed = [msgspec.structs.replace(approved().approval.votes[0], **fields)]
    assert difference in (changed_approval(approved(votes=changed), LOG) or "")


@pytest.mark.parametrize("named", ["allow_always", "reject_once", "other"])
def test_a_grant_for_once_cannot_become_a_grant_for_always(named: str) -> None:
    difference = "the option that it names is not one that its votes gave it"
    assert changed_approval(approved(option_id=named), LOG) == difference
    unrecorded = (LOG[0], sealed("vote", "user:ann", "approver", decision="grant", digest=DIGEST), LOG[2])
    voted = [msgspec.structs.replace(approved().approval.votes[0], option_id=named)]
    old = changed_approval(approved(option_id=named, votes=voted), unrecorded)
    assert old == difference, "a log of an earlier version does not name the option"
    assert changed_approval(approved(), unrecorded) is None


def test_added_and_missing_votes_are_refused() -> None:
    second = Vote(by="user:eve", at="", decision="grant", method="acl", role="approver")
    first = approved().approval.votes[0]
    for votes in ([], [first, second], [first, first]):
        assert changed_approval(approved(votes=votes, option_id=None), LOG) == "its votes are not the recorded ones"


def test_a_vote_on_other_bytes_does_not_count() -> None:
    difference = changed_approval(approved(), (LOG[0], vote(digest="0" * 64), LOG[2]))
    assert difference == "a vote was recorded on another digest"


def test_a_withdrawn_vote_no_longer_counts() -> None:
    pending = approved(state="pending", option_id=None)
    log = (opening(pending), vote(), sealed("withdraw", "user:ann", "approver"))
    gone = [msgspec.structs.replace(pending.approval.votes[0], withdrawn_at="now")]
    assert changed_approval(approved(state="pending", option_id=None, votes=gone), log) is None
    assert changed_approval(pending, log) == "its votes are not the recorded ones"


def test_insufficient_recorded_votes_grant_nothing() -> None:
    for fields in ({"required": 2}, {"groups": [Quorum(role="admin", min=1)]}):
        record = approved(**fields)
        assert changed_approval(record, (opening(record), *LOG[1:])) == "the recorded votes do not grant it"


@pytest.mark.parametrize("log", [(), LOG[1:], (opening(approved(), to="granted"), *LOG[1:])])
def test_without_the_record_of_its_opening_an_approval_is_refused(log: tuple[SealedFields, ...]) -> None:
    assert changed_approval(approved(), log) == "there is no audit record of its opening"


def test_only_records_in_their_stored_form_are_read() -> None:
    body = b'{"action":"vote","meta":{"to":"x"},"who":{"id":"user:ann","role":"owner"}}'
    [one] = read([AuditRecord(tenant_id="acme", seq=1, hash=leaf_hash(body), body=body)])
    assert (one.action, one.who["id"], one.meta, one.command_id) == ("vote", "user:ann", {"to": "x"}, None)
    for number, (wrong, stored) in enumerate(((body, b"{}"), (b"{}", b"{}"), (b"\xff", b"\xff"))):
        with pytest.raises(BrokenRecord, match=f"audit record {number}"):
            read([AuditRecord(tenant_id="acme", seq=number, hash=leaf_hash(stored), body=wrong)])
