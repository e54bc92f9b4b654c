"""A proof file of one command's records: the files that a third party accepts or refuses (O-10, U-3)."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from tests.command.tampering import KEY, signed

from interlock.command.audit.audit import FIRST_PREV, SALT_BYTES, seal
from interlock.command.audit.audit_tree import answer, inclusion, root_of
from interlock.command.audit.record_proof import (
    MAX_PROOF_FILE_BYTES,
    MAX_PROVEN_RECORDS,
    PROOF_FORMAT,
    ProofReport,
    RecordProof,
    check,
    proven,
    written,
)
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, AuditRecord

pytestmark = pytest.mark.req("O-10")
STRANGER = runpy.run_path(str(Path(__file__).resolve().parents[3] / "verifier" / "interlock_audit_verify.py"))
OURS = (3, 4, 9, 17)
SIZE = 20
Change = Callable[[dict[str, Any]], None]


def log(size: int = SIZE, tenant: str = "t1") -> list[AuditRecord]:
    """A log in which some records are those of `cmd_a`."""
    records, prev = list[AuditRecord](), FIRST_PREV
    for seq in range(1, size + 1):
        draft = AuditDraft(tenant_id=tenant, at=iso(seq * 1_000), who={"id": "user:é", "role": "owner"}, action="vote",
                           command_id="cmd_a" if seq in OURS else "cmd_b", meta={"n": seq},
                           personal={"comment": "private"})
        records.append(seal(draft, seq, prev, [bytes(SALT_BYTES)]))
        prev = records[-1].hash
    return records


def path(records: list[AuditRecord], seq: int) -> list[str]:
    leaves = [bytes.fromhex(record.hash) for record in records]
    width = {0: 1, 8: 256}
    hashes = answer(inclusion(seq - 1, len(records)),
                    lambda span: [root_of(leaves[at * width[span.level]:(at + 1) * width[span.level]])
                                  for at in range(span.start, span.end)])
    return [one.hex() for one in hashes]


def checked(raw: bytes, key: Ed25519PublicKey = KEY.public_key()) -> ProofReport:  # noqa: B008 - it has no state
    """Our report; the verifier for strangers must be of the same opinion."""
    report = check(raw, key)
    if report.ok:
        assert STRANGER["check_proof"](raw, key) == (report.records, report.command_id, report.origin)
    else:
        with pytest.raises(STRANGER["Bad"]) as bad:
            STRANGER["check_proof"](raw, key)
        assert bad.value.args == (report.kind, report.seq)
    return report


def proof_of(*seqs: int, tenant: str = "t1", size: int = SIZE) -> RecordProof:
    records = log(size, tenant)
    return RecordProof(PROOF_FORMAT, "cmd_a", signed(records).note,
                       [proven(records[seq - 1].body, path(records, seq)) for seq in seqs])


def changed(change: Change) -> bytes:
    """The proof after an attacker changed it."""
    file = json.loads(written(proof_of(*OURS)))
    change(file)
    return json.dumps(file).encode()


def test_the_records_of_a_command_are_proven_without_the_log_and_without_personal_data() -> None:
    file = written(proof_of(*OURS))
    report = checked(file)

    assert (report.ok, report.records, report.size, report.command_id) == (True, len(OURS), SIZE, "cmd_a")
    assert report.message == "4 records of cmd_a are in the signed log interlock.audit/gw_1/t1 of 20 records."
    assert report.rows[0] == "3 · 1970-01-01T00:00:03.000Z · user:é · vote"
    assert b"private" not in file


def test_a_reformatted_proof_file_proves_the_same() -> None:
    assert checked(changed(lambda _: None)).ok


def test_another_key_proves_nothing() -> None:
    report = checked(written(proof_of(*OURS)), Ed25519PrivateKey.generate().public_key())
    assert (report.ok, report.kind) == (False, "bad signature")


def first(name: str, value: Any) -> Change:
    return lambda file: file["records"][0]["record"].update({name: value})


def _swap_path(file: dict[str, Any]) -> None:
    file["records"][0]["proof"], file["records"][1]["proof"] = file["records"][1]["proof"], file["records"][0]["proof"]


def _resize(file: dict[str, Any]) -> None:
    file["checkpoint"] = file["checkpoint"].replace("\n20\n", "\n19\n")


def _rename(file: dict[str, Any]) -> None:
    file["command_id"] = "cmd_b"


@pytest.mark.parametrize(("change", "kind", "seq"), [
    (first("action", "approve"), "not included", 3),
    (first("who", {"id": "user:mallory", "role": "owner"}), "not included", 3),
    (first("at", "2026-01-01T00:00:00.000Z"), "not included", 3),
    (first("seq", 5), "not included", 5),
    (first("seq", 0), "record changed", None),
    (first("seq", True), "record changed", None),
    (first("seq", "3"), "record changed", None),
    (first("note", "more"), "record changed", 3),
    (first("meta", {"n": 1.5}), "record changed", 3),
    (first("meta", {"n": None}), "record changed", 3),
    (_swap_path, "not included", 3),
    (lambda file: file["records"][0]["proof"].pop(), "not included", 3),
    (lambda file: file["records"][0]["proof"].append("00" * 32), "not included", 3),
    (lambda file: file["records"][0]["proof"].append("00"), "unreadable", 3),
    (lambda file: file["records"][0]["proof"].append("zz" * 32), "unreadable", 3),
    (lambda file: file["records"][0].update(proof=["00" * 32] * 65), "unreadable", 3),
    (_resize, "bad signature", None),
    (lambda file: file.update(checkpoint="none"), "unreadable", None),
    (_rename, "another command", 3),
    (lambda file: file["records"].reverse(), "unreadable", 9),
    (lambda file: file["records"].append(file["records"][-1]), "unreadable", 17),
    (lambda file: file["records"].clear(), "unreadable", None),
    (lambda file: file.update(records=file["records"] * (MAX_PROVEN_RECORDS // 4 + 1)), "unreadable", None),
    (lambda file: file.update(format="interlock.audit-proof/2"), "unreadable", None),
    (lambda file: file.update(more=1), "unreadable", None),
    (lambda file: file.pop("format"), "unreadable", None),
    (lambda file: file["records"][0].update(more=1), "unreadable", None),
    (lambda file: file["records"][0].update(record=[]), "unreadable", None),
    (lambda file: file["records"][0].update(proof=[1]), "unreadable", None),
    (lambda file: file.update(command_id=1), "unreadable", None),
    (lambda file: file.update(checkpoint=None), "unreadable", None),
])
def test_every_change_of_a_proof_is_found(change: Change, kind: str, seq: int | None) -> None:
    report = checked(changed(change))
    assert (report.ok, report.kind, report.seq) == (False, kind, seq)
    assert report.message.endswith(".")


def test_a_record_of_another_command_is_refused() -> None:
    report = checked(written(proof_of(3, 5)))
    assert (report.kind, report.seq) == ("another command", 5)


def test_a_record_of_another_tenant_is_refused() -> None:
    report = checked(written(proof_of(3, tenant="t2")))
    assert (report.kind, report.seq) == ("another command", 3)


@pytest.mark.parametrize("size", [3, 4, 5, 7, 8, 9, 17, 64, 65])
def test_trees_of_every_shape_are_proved(size: int) -> None:
    assert checked(written(proof_of(*[seq for seq in OURS if seq <= size], size=size))).ok


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"{" * 10_000, b" " * (MAX_PROOF_FILE_BYTES + 1)])
def test_a_file_that_is_not_a_proof_is_refused_in_one_sentence(raw: bytes) -> None:
    report = checked(raw)
    assert (report.ok, report.kind) == (False, "unreadable")


@pytest.mark.parametrize(("text", "instead"), [
    ('"action": "vote"', '"action": "approve", "action": "vote"'),
    ('"who": {', '"who": {"id": "user:mallory", "role": "owner"}, "who": {'),
    ('"who": {', '"who": {"id": "user:mallory", '),
    ('{"format"', '{"command_id": "cmd_b", "format"'),
    ('{"format"', '{"records": [], "format"'),
])
def test_an_ambiguous_file_proves_nothing(text: str, instead: str) -> None:
    report = checked(changed(lambda _: None).replace(text.encode(), instead.encode(), 1))
    assert (report.ok, report.kind) == (False, "unreadable")
    assert "a member occurs twice" in report.message


@pytest.mark.parametrize("change", [
    lambda raw: raw.replace(b'"n": 3', b'"n": "\\ud800 half a pair"', 1),
    lambda raw: raw.replace(b'"n": 3', b'"n": NaN', 1),
    lambda raw: raw.replace(b'"n": 3', b'"n": 1e400', 1), lambda raw: b"\xef\xbb\xbf" + raw,
    lambda raw: raw.decode().encode("utf-16"), lambda raw: raw + b"{}"],
    ids=["half a pair", "NaN", "1e400", "a mark before it", "UTF-16", "more behind it"])
def test_both_verifiers_refuse_what_is_not_json_in_utf_8(change: Callable[[bytes], bytes]) -> None:
    report = checked(change(changed(lambda _: None)))
    assert (report.ok, report.kind) == (False, "unreadable")


def test_a_record_is_read_from_its_bytes() -> None:
    records = log()
    assert msgspec.json.encode(proven(records[2].body, []).record, order="sorted") == records[2].body
