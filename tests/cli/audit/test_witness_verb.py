"""A witness that watches a log: it cosigns what grew, and keeps evidence of what did not (U-3)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.command.tampering import KEY, make_log, rechained, signed

from interlock.cli.audit import witness_verb
from interlock.cli.audit.witness_verb import (
    MAX_ANSWER_BYTES,
    _look,  # pyright: ignore[reportPrivateUsage]
    _watch,  # pyright: ignore[reportPrivateUsage]
    _Witness,  # pyright: ignore[reportPrivateUsage]
)
from interlock.cli.config.place import NOWHERE
from interlock.cli.link.gateway_link import Address
from interlock.cli.verb_error import Trouble
from interlock.command.audit.audit_tree import SubtreeHashes, answer, consistency, root_of
from interlock.command.audit.note import (
    cosigned_at,
    origin_of,
    parse_checkpoint,
    sign_checkpoint,
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
def test_a_witness_refuses_a_fork_and_a_rollback_and_stores_the_evidence(tmp_path: Path) -> None:
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
        record = next(one for one in evidence if one["shown"] == shown.note and one["what"] == str(refused.value))
        assert record["cosigned"] == known.note
        assert witness.known(shown.origin) == known
        for path in tmp_path.glob("evidence-*.json"):
            path.unlink()


@pytest.mark.req("U-3")
def test_a_witness_accepts_neither_another_key_nor_a_state_it_did_not_write(tmp_path: Path) -> None:
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


@pytest.mark.req("U-3")
def test_a_log_that_was_renamed_does_not_begin_again_with_a_witness_that_knows_nothing(tmp_path: Path) -> None:
    witness = _Witness(tmp_path, "w", OWN, KEY.public_key())
    records = make_log(random.Random(1), 20)
    known = witness.take(None, signed(records, 10), [])
    (tmp_path / "interlock.audit%2Ftorn.checkpoint").write_text("rubbish")
    renamed = sign_checkpoint(KEY, origin_of("gw_renamed", known.tenant_id), 3, signed(records, 3).root)

    assert witness.earlier(renamed) == known
    with pytest.raises(CosignRefused, match="which the same key signed"):
        witness.take(witness.earlier(renamed), renamed, [])
    [evidence] = [json.loads(path.read_text()) for path in tmp_path.glob("evidence-*.json")]
    assert (evidence["cosigned"], evidence["shown"]) == (known.note, renamed.note)
    another = sign_checkpoint(KEY, origin_of("gw_renamed", "another"), 3, signed(records, 3).root)
    assert witness.earlier(another) is None, "one directory has the logs of several tenants"


@pytest.mark.req("U-3", "Y-6")
def test_a_hostile_name_is_refused_before_a_file_is_looked_for(tmp_path: Path) -> None:
    witness = _Witness(tmp_path, "w", OWN, KEY.public_key())
    with pytest.raises(CosignRefused, match="signature of the log's key"):
        witness.earlier(sign_checkpoint(OWN, "interlock.audit/" + "g" * 5_000, 3, bytes(32)))
    with pytest.raises(CosignRefused, match="no gateway's log"):
        witness.earlier(sign_checkpoint(KEY, "interlock.audit/" + "g" * 5_000, 3, bytes(32)))


class HostileGateway:
    """A gateway behind a link that answers as a test says."""

    def __init__(self, *answers: bytes | Trouble) -> None:
        self.address = Address("https://gate.example", "")
        self._answers = list(answers)
        self.sent = 0

    async def download(self, path: str) -> AsyncIterator[bytes]:
        answer = self._answers.pop(0)
        if isinstance(answer, Trouble):
            raise answer
        while True:
            self.sent += len(answer)
            yield answer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return


@pytest.mark.req("U-3", "Y-6")
def test_an_answer_without_end_is_read_only_so_far(tmp_path: Path) -> None:
    gateway = HostileGateway(b"interlock" * 1_000)
    witness = _Witness(tmp_path, "w", OWN, KEY.public_key())
    with pytest.raises(CosignRefused, match="longer than 32768 bytes"):
        asyncio.run(_look(witness, gateway))  # type: ignore[arg-type]
    assert gateway.sent < 2 * MAX_ANSWER_BYTES


@pytest.mark.req("U-3")
def test_a_refusal_that_may_pass_does_not_end_a_witness(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    gateway = HostileGateway(Trouble("Unavailable", "The log cannot be signed now."), b"x" * MAX_ANSWER_BYTES)
    monkeypatch.setattr(witness_verb, "GatewayLink", lambda _where: gateway)
    witness = _Witness(tmp_path, "w", OWN, KEY.public_key())
    assert asyncio.run(_watch(witness, NOWHERE, 0, once=False)) == 1
    assert "The log cannot be signed now. The next look is in 0 s." in capsys.readouterr().err
