"""A witness that watches a log: it cosigns what grew, and keeps evidence of what did not (U-3)."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.command.tampering import KEY, make_log, rechained, signed

from interlock.cli.audit.witness_verb import _Witness  # pyright: ignore[reportPrivateUsage]
from interlock.cli.verb_error import Trouble
from interlock.command.audit.audit_tree import SubtreeHashes, answer, consistency, root_of
from interlock.command.audit.note import (
    cosigned_at,
    parse_checkpoint,
)
from interlock.command.audit.witness import CosignRefused, needs_proof
from interlock.protocol.records import AuditRecord

OWN = Ed25519PrivateKey.from_private_bytes(bytes(32))


def proof_of(records: list[AuditRecord], first: int) -> list[bytes]:
    leaves = [bytes.fromhex(one.hash) for one in records]

    def read(span: SubtreeHashes) -> list[bytes]:
        return [root_of(leaves[i << span.level : (i + 1) << span.level]) for i in range(span.start, span.end)]

    return answer(consistency(first, len(records)), read)


@pytest.mark.req("U-3")
def test_a_witness_cosigns_a_log_that_only_grows(tmp_path: Path) -> None:
    witness = _Witness(tmp_path, "w", OWN, KEY.public_key())
    records = make_log(random.Random(1), 20)
    for size in (3, 3, 8, 20):
        shown = signed(records, size)
        known = witness.known(shown.origin)
        proof = proof_of(records[:size], known.size) if known is not None and needs_proof(known, shown) else []
        cosigned = witness.take(known, shown, proof)
        assert cosigned_at(cosigned, "w", OWN.public_key())
        assert witness.known(shown.origin) == cosigned
        assert len(parse_checkpoint(cosigned.note).signatures) == 2


@pytest.mark.req("U-3")
def test_a_witness_refuses_a_fork_and_a_rollback_and_keeps_what_shows_it(tmp_path: Path) -> None:
    witness = _Witness(tmp_path, "w", OWN, KEY.public_key())
    records = make_log(random.Random(1), 20)
    known = witness.take(None, signed(records, 10), [])
    other = rechained(records, 5)
    for shown, proof, words in (
        (signed(other), proof_of(other, 10), "does not continue"),
        (signed(other, 10), [], "does not continue"),
        (signed(records), [], "does not continue"),
        (signed(records, 9), [], "went back"),
    ):
        with pytest.raises(CosignRefused, match=words) as refused:
            witness.take(known, shown, proof)
        evidence = [json.loads(path.read_text()) for path in tmp_path.glob("evidence-*.json")]
        told = next(one for one in evidence if one["shown"] == shown.note and one["what"] == str(refused.value))
        assert told["cosigned"] == known.note
        assert witness.known(shown.origin) == known
        for path in tmp_path.glob("evidence-*.json"):
            path.unlink()


@pytest.mark.req("U-3")
def test_a_witness_believes_neither_another_key_nor_a_state_that_it_did_not_write(tmp_path: Path) -> None:
    witness = _Witness(tmp_path, "w", OWN, OWN.public_key())
    with pytest.raises(CosignRefused, match="signature of the log's key"):
        witness.take(None, signed(make_log(random.Random(1), 2)), [])
    assert not list(tmp_path.iterdir())
    honest = _Witness(tmp_path, "w", OWN, KEY.public_key())
    kept = honest.take(None, signed(make_log(random.Random(1), 2)), [])
    (path,) = tmp_path.iterdir()
    path.write_text(kept._replace(signatures=kept.signatures[:1]).note)
    with pytest.raises(Trouble, match="not cosigned by this witness"):
        honest.known(kept.origin)
    path.write_text("rubbish")
    with pytest.raises(Trouble, match="not a checkpoint"):
        honest.known(kept.origin)
