"""Proofs in the audit view in real Chromium: that the log continues from what the browser saw, and that a record is in
it (J-7). Trees and proofs are Python's, the checks the page's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.command.tampering import KEY, make_log, rechained, signed
from tests.console.audit_imposter import Imposter, Lie, inclusion_of, opened, verdict
from tests.console.pages import asked

from interlock.command.audit.audit import leaf_hash, record_line
from interlock.command.audit.audit_tree import root_of
from interlock.command.audit.note import Checkpoint, origin_of, sign_checkpoint
from interlock.protocol.records import AuditRecord
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-7")]
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
SIZES = (1, 2, 3, 6, 7, 8, 13, 21)
PAIRS = ((1, 2), (1, 7), (2, 3), (3, 4), (4, 8), (4, 9), (5, 13), (7, 8), (8, 21), (13, 21), (20, 21), (6, 6))
LOG = make_log(random.Random(23), 11)
WIDE = make_log(random.Random(16), 16)
"""A whole tree: each of its proofs of inclusion has four hashes."""
FORK = rechained(LOG, 4)
"""Another log, consistent in itself: its fifth record and all later ones differ."""


@pytest.fixture
def imposter(page: Any, stack: Stack) -> Iterator[Imposter]:
    imposter = Imposter(page)
    opened(page, stack)
    verdict(page)
    yield imposter
    page.context.unroute_all()
    imposter.witness(None)


def proven(page: Any, seq: int) -> str:
    """Open a record, and wait for what the page finds of it."""
    row = page.locator(".records li", has=page.locator(f"summary > span:first-child:text-is('{seq}')"))
    row.locator("summary").click()
    row.locator("[data-proven]").wait_for()
    return row.locator("[data-proven]").get_attribute("data-proven")


def flipped(digits: str) -> str:
    return f"{int(digits[0], 16) ^ 1:x}{digits[1:]}"


def proof_of(change: Lie) -> Lie:
    return lambda sent: {**sent, "proof": change(sent["proof"])}


FORGED_PROOFS: dict[str, Lie] = {
    "a flipped bit": proof_of(lambda proof: [flipped(proof[0]), *proof[1:]]),
    "the last hash flipped": proof_of(lambda proof: [*proof[:-1], flipped(proof[-1])]),
    "truncated": proof_of(lambda proof: proof[:-1]),
    "its beginning cut": proof_of(lambda proof: proof[1:]),
    "one hash more": proof_of(lambda proof: [*proof, proof[-1]]),
    "none": proof_of(lambda _: []),
    "reordered": proof_of(lambda proof: proof[::-1]),
    "no hashes": proof_of(lambda proof: [7] * len(proof)),
    "capitals": proof_of(lambda proof: [one.upper() for one in proof]),
    "half a hash": proof_of(lambda proof: [proof[0][:32], *proof[1:]]),
    "endless": proof_of(lambda proof: proof * 1_000),
    "no list": proof_of(lambda proof: {"length": len(proof)}),
    "nothing at all": lambda _: {},
}


def test_the_gateways_own_log_continues_and_a_record_is_proven(page: Any, stack: Stack) -> None:
    opened(page, stack)
    assert verdict(page).state == "verified"
    asked(stack, "true", "proven")
    page.reload()
    assert verdict(page).state == "continued"
    assert "continues unchanged" in page.locator(".verdict").inner_text()
    page.locator(".records summary").first.click()
    page.locator("[data-proven=included]").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Verify every record").click()
    page.locator(".verdict[data-state=verified]").wait_for()


def test_each_record_of_trees_of_many_sizes_is_proven(page: Any, imposter: Imposter) -> None:
    for size in SIZES:
        records = make_log(random.Random(size), size)
        assert imposter.visit(records, signed(records), signed(records)).state == "continued"
        page.locator(f".records li:nth-child({size})").wait_for()
        page.evaluate("document.querySelectorAll('.records details').forEach((one) => { one.open = true; })")
        page.locator(f":nth-match([data-proven], {size})").wait_for()
        found = page.locator("[data-proven]").evaluate_all("all => all.map((one) => one.dataset.proven)")
        assert found == ["included"] * size


def test_a_log_continues_from_every_size_without_being_read_again(imposter: Imposter) -> None:
    records = make_log(random.Random(3), 21)
    for first, second in PAIRS:
        found = imposter.visit(records[:second], signed(records, second), signed(records, first))
        assert (found.state, imposter.asked) == ("continued", []), (first, second)


def test_a_forged_consistency_proof_counts_as_a_replaced_log(imposter: Imposter) -> None:
    for name, lie in FORGED_PROOFS.items():
        imposter.consistency = lie
        assert imposter.visit(WIDE, signed(WIDE), signed(WIDE, 7)) == ("bad", "forked", None), name


def test_a_forged_inclusion_proof_shows_the_record_as_absent(page: Any, imposter: Imposter) -> None:
    assert imposter.visit(WIDE, signed(WIDE), signed(WIDE, 7)).state == "continued"
    for seq, (name, lie) in enumerate(FORGED_PROOFS.items(), 1):
        imposter.inclusion = lie
        assert proven(page, seq) == "absent", name
    assert {one.get_attribute("role") for one in page.locator("[data-proven]").all()} == {"alert"}


def altered(seq: int, change: Lie) -> Lie:
    """A list in which one record's line is another."""
    return lambda page: {**page, "items": [change(one) if one["seq"] == seq else one for one in page["items"]]}


def rehashed(line: dict[str, Any]) -> dict[str, Any]:
    """The line with another actor, and the hash that fits it."""
    record = {**line["record"], "who": {"id": "user:mallory", "role": "owner"}}
    return {**line, "record": record, "hash": leaf_hash(rfc8785.dumps(record))}


def test_an_altered_record_is_red(page: Any, imposter: Imposter) -> None:
    personal = next(one.seq for one in LOG if one.personal)
    name = next(iter(LOG[personal - 1].personal))
    forgeries = {
        "another actor": (5, lambda line: {**line, "record": rehashed(line)["record"]}, "changed"),
        "another actor and its hash": (5, rehashed, "absent"),
        "another hash": (5, lambda line: {**line, "hash": flipped(line["hash"])}, "changed"),
        "another record's body": (5, lambda line: {**line, **{
                 key: value for key, value in _line(LOG[6]).items() if key != "seq"}}, "changed"),
        "a member more": (5, lambda line: {**line, "record": {**line["record"], "note": "x"}}, "changed"),
        "no record": (5, lambda line: {**line, "record": {**line["record"], "seq": "5"}}, "changed"),
        "another personal value": (personal, lambda line: {**line, "personal": {
                 **line["personal"], name: [line["personal"][name][0], "forged"]}}, "changed"),
    }
    for what, (seq, lie, expected) in forgeries.items():
        imposter.listing = altered(seq, lie)
        assert imposter.visit(LOG, signed(LOG), signed(LOG)).state == "continued"
        assert proven(page, seq) == expected, what
        honest_one = next(one.seq for one in LOG if one.seq != seq)
        assert proven(page, honest_one) == "included", what


def _line(record: AuditRecord) -> dict[str, Any]:
    return msgspec.json.decode(record_line(record))


def test_the_proof_of_another_record_or_another_tree_is_refused(page: Any, imposter: Imposter) -> None:
    other = inclusion_of(LOG, 6, len(LOG))
    smaller = inclusion_of(LOG, 5, 8)
    for lie in (other, smaller):
        imposter.inclusion = lambda _, lie=lie: lie
        assert imposter.visit(LOG, signed(LOG), signed(LOG)).state == "continued"
        assert proven(page, 5) == "absent"


def by(key: Ed25519PrivateKey, records: list[AuditRecord], origin: str = origin_of("gw_1", "t1")) -> Checkpoint:
    return sign_checkpoint(key, origin, len(records), root_of([bytes.fromhex(one.hash) for one in records]))


def test_a_checkpoint_of_another_key_or_log_is_not_a_continuation(imposter: Imposter) -> None:
    kept = signed(LOG, 6)
    assert imposter.visit(LOG, by(OTHER_KEY, LOG), kept) == ("bad", "bad signature", None)
    assert imposter.visit(LOG, by(KEY, LOG, origin_of("gw_1", "t2")), kept) == ("bad", "bad signature", None)
    assert imposter.visit(LOG, by(KEY, LOG), by(OTHER_KEY, LOG[:6])) == ("bad", "bad signature", None)
    assert imposter.visit(FORK, by(KEY, FORK), kept) == ("bad", "forked", None)
    assert imposter.visit(FORK, by(KEY, FORK), signed(LOG)) == ("bad", "forked", None)
    assert imposter.visit(FORK, by(KEY, FORK), signed(LOG, 4)).state == "continued", "it is the same so far"
    assert imposter.visit(LOG[:5], by(KEY, LOG[:5]), kept) == ("bad", "rolled back", 6)


def test_a_newer_record_advances_the_witness_or_shows_a_replaced_log(page: Any, imposter: Imposter) -> None:
    assert imposter.visit(LOG, signed(LOG, 8), signed(LOG, 4)).state == "continued"
    assert proven(page, 10) == "unsigned"
    imposter.checkpoint = signed(LOG)
    assert proven(page, 9) == "included"
    assert imposter.visit(FORK, signed(LOG, 8), signed(LOG, 8)).state == "continued"
    imposter.checkpoint = by(KEY, FORK)
    assert proven(page, 9) == "unproven"
    assert verdict(page) == ("bad", "forked", None)
