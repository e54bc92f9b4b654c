"""Signed notes, checkpoints and cosignatures (U-3), as C2SP writes them: one form each, and no incomplete signature."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.command.audit.note import (
    COSIGNATURE,
    ED25519,
    MAX_SIGNATURES,
    NotANote,
    Signature,
    cosign,
    cosigned_at,
    is_genuine,
    key_id,
    origin_of,
    parse_checkpoint,
    sign_checkpoint,
    verifier_key,
)

pytestmark = pytest.mark.req("U-3")
LOG = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
WITNESS = Ed25519PrivateKey.from_private_bytes(bytes(32))
ORIGIN = origin_of("gw_1", "t1")
ROOT = bytes(range(32))
SIGNED = sign_checkpoint(LOG, ORIGIN, 7, ROOT)
AT_S = 1_800_000_000


def test_a_written_checkpoint_is_read_back() -> None:
    assert SIGNED.note.startswith(f"interlock.audit/gw_1/t1\n7\n{base64.b64encode(ROOT).decode()}\n\n— {ORIGIN} ")
    assert parse_checkpoint(SIGNED.note) == SIGNED
    assert is_genuine(SIGNED, LOG.public_key())
    assert SIGNED.tenant_id == "t1"


@pytest.mark.parametrize(("gateway", "tenant"), [("a b", "c+d"), ("a/b", "c\nd"), ("é", "%2F")])
def test_an_origin_is_one_word_whatever_its_parts_are(gateway: str, tenant: str) -> None:
    origin = origin_of(gateway, tenant)
    assert origin.count("/") == 2
    assert not set(" +\n") & set(origin)
    assert sign_checkpoint(LOG, origin, 0, ROOT).tenant_id == tenant


@pytest.mark.parametrize("changed", [
    SIGNED.note.replace("\n7\n", "\n8\n"), SIGNED.note.replace("t1\n", "t2\n", 1),
    SIGNED.note.replace(base64.b64encode(ROOT).decode(), base64.b64encode(bytes(32)).decode()),
    SIGNED.note.replace("\n\n", "\nextension\n\n"),
])
def test_a_changed_text_is_not_verified(changed: str) -> None:
    assert not is_genuine(parse_checkpoint(changed), LOG.public_key())


def test_another_keys_signature_is_not_the_logs() -> None:
    forged = sign_checkpoint(WITNESS, ORIGIN, 7, ROOT)
    assert not is_genuine(forged, LOG.public_key())
    claims = Signature(ORIGIN, key_id(ORIGIN, ED25519, LOG.public_key()), forged.signatures[0].blob)
    assert not is_genuine(SIGNED._replace(signatures=(claims,)), LOG.public_key())
    assert not is_genuine(SIGNED._replace(signatures=(*SIGNED.signatures, claims)), LOG.public_key()), "both must hold"
    assert not is_genuine(SIGNED._replace(signatures=()), LOG.public_key())


@pytest.mark.parametrize(("note", "sentence"), [
    ("", "a text, an empty line"), (SIGNED.note[:-1], "a text, an empty line"), (SIGNED.text, "a text, an empty line"),
    (SIGNED.note.replace("\n7\n", "\n07\n"), "origin, a size and a root"),
    (SIGNED.note.replace("\n7\n", "\n-7\n"), "origin, a size and a root"),
    (SIGNED.note.replace("\n7\n", "\n\u0667\n"), "origin, a size and a root"),
    (SIGNED.note.replace("\n7\n", "\n\n"), "origin, a size and a root"),
    (SIGNED.note.replace("\n7\n", "\n7\t\n"), "at most 8 KiB"),
    (SIGNED.note + "x" * 8_192, "at most 8 KiB"), (SIGNED.note.replace("— ", "- "), "A signature line"),
    (SIGNED.note.replace(f"— {ORIGIN}", "— a+b"), "A signature line"), (SIGNED.note + "— a AAAA\n", "too short"),
    (SIGNED.note + "— a ????\n", "is not"), (SIGNED.note + "— a AAAAAAB=\n", "one form"),
    (f"{ORIGIN}\n7\nAAAA\n\n— a AAAAAAAAAA==\n", "SHA-256"),
    (SIGNED.text + "\n" + "— a AAAAAAAA\n" * (MAX_SIGNATURES + 1), "at most 16 signatures"),
])
def test_a_malformed_note_is_refused_with_a_reason(note: str, sentence: str) -> None:
    with pytest.raises(NotANote, match=sentence):
        parse_checkpoint(note)


def test_a_witness_cosigns_with_its_time_and_its_last_cosignature_counts() -> None:
    first = cosign(WITNESS, "w.example", SIGNED, AT_S)
    later = cosign(WITNESS, "w.example", first, AT_S + 60)
    assert cosigned_at(first, "w.example", WITNESS.public_key()) == AT_S
    assert cosigned_at(later, "w.example", WITNESS.public_key()) == AT_S + 60
    assert len(later.signatures) == 2
    assert parse_checkpoint(later.note) == later
    assert is_genuine(later, LOG.public_key())


def test_a_cosignature_of_another_text_time_name_or_key_is_false() -> None:
    seen = cosign(WITNESS, "w.example", SIGNED, AT_S)
    own = seen.signatures[-1]
    public = WITNESS.public_key()
    assert cosigned_at(seen, "other.example", public) is None
    assert cosigned_at(seen, "w.example", LOG.public_key()) is None
    assert cosigned_at(SIGNED, "w.example", public) is None
    moved = sign_checkpoint(LOG, ORIGIN, 8, ROOT)._replace(signatures=seen.signatures)
    assert cosigned_at(moved, "w.example", public) is None
    older = own._replace(blob=(AT_S - 1).to_bytes(8, "big") + own.blob[8:])
    assert cosigned_at(SIGNED._replace(signatures=(older,)), "w.example", public) is None
    assert cosigned_at(SIGNED._replace(signatures=(own._replace(blob=own.blob[:-1]),)), "w.example", public) is None


@pytest.mark.parametrize("kind", [ED25519, COSIGNATURE])
def test_a_verifier_key_names_the_key_its_id_and_its_kind(kind: int) -> None:
    public = WITNESS.public_key()
    name, shown_id, encoded = verifier_key("w.example", kind, public).split("+", 2)
    assert (name, bytes.fromhex(shown_id)) == ("w.example", key_id("w.example", kind, public))
    assert base64.b64decode(encoded) == bytes([kind]) + public.public_bytes_raw()
