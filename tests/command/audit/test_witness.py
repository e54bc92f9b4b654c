"""Cosignatures of a witness (U-3): for a log that has only grown since the last check; otherwise evidence."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from command.audit_logs import KEY, PUBLIC, checkpoint_of, log
from interlock.command.audit.note import Checkpoint, origin_of, sign_checkpoint
from interlock.command.audit.witness import CosignRefused, check_growth, needs_proof, succeeds
from interlock.protocol.records import AuditRecord

pytestmark = pytest.mark.req("U-3")
RECORDS = log(9)
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
FORKED = [*RECORDS[:2], *log(9, action="approve")[2:]]


def head(count: int, records: list[AuditRecord] = RECORDS) -> Checkpoint:
    return checkpoint_of(records[:count])


def refused(known: Checkpoint | None, shown: Checkpoint, proof: list[bytes]) -> CosignRefused:
    with pytest.raises(CosignRefused) as caught:
        check_growth(known, shown, proof, PUBLIC)
    return caught.value


@pytest.mark.parametrize(("known", "shown", "needed"), [
    (None, 9, False), (0, 9, False), (9, 9, False), (3, 9, True), (9, 3, False)])
def test_a_proof_is_needed_only_between_two_sizes(known: int | None, shown: int, needed: bool) -> None:
    assert needs_proof(None if known is None else head(known), head(shown)) is needed


def test_the_first_check_and_an_unchanged_log_need_no_proof() -> None:
    check_growth(None, head(9), [], PUBLIC)
    check_growth(head(9), head(9), [], PUBLIC)
    check_growth(head(0), head(9), [], PUBLIC)


def test_a_checkpoint_without_the_logs_signature_is_no_evidence_against_it() -> None:
    stranger = checkpoint_of(RECORDS, OTHER)
    assert not refused(None, stranger, []).is_evidence
    other = checkpoint_of(RECORDS, KEY, tenant_id="t2")
    caught = refused(head(3), other, [])
    assert not caught.is_evidence
    assert "watches interlock.audit/gw_1/t1" in str(caught)


def test_a_tenants_log_under_another_name_of_its_gateway_is_evidence_if_one_key_signed_both() -> None:
    renamed = sign_checkpoint(KEY, origin_of("gw_2", "t1"), 3, head(3).root)
    caught = refused(head(9), renamed, [])
    assert caught.is_evidence
    assert "shows the log interlock.audit/gw_2/t1, and this witness watches interlock.audit/gw_1/t1" in str(caught)
    assert not succeeds(head(9), renamed, OTHER.public_key())


@pytest.mark.parametrize("origin", ["interlock.audit/" + "g" * 160, "elsewhere/gw_1/t1", "interlock.audit/gw\x9b/t1"])
def test_a_signed_name_that_no_log_has_is_refused(origin: str) -> None:
    caught = refused(None, sign_checkpoint(KEY, origin, 3, head(3).root), [])
    assert (caught.is_evidence, "no gateway's log" in str(caught)) == (False, True)


def test_a_rolled_back_log_is_detected_by_its_own_signatures() -> None:
    caught = refused(head(9), head(3), [])
    assert caught.is_evidence
    assert "it had 9 records, and now shows 3" in str(caught)


def test_a_fork_of_the_same_size_and_a_longer_one_are_detected() -> None:
    assert refused(head(9), head(9, FORKED), []).is_evidence
    assert refused(head(3), head(9, FORKED), []).is_evidence
    assert refused(head(3), head(9), []).is_evidence, "nothing shows that it continues"
