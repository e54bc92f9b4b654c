"""`interlock audit witness`: watch a gateway's audit log from outside, and cosign checkpoints that only extend it
(U-3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE, PUBLIC_KEY_FILE, Here, Where
from interlock.cli.display.terminal import print_sentence, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.verb_error import Trouble, usage
from interlock.command.audit.note import (
    COSIGNATURE,
    Checkpoint,
    NotANote,
    cosign,
    cosigned_at,
    parse_checkpoint,
    verifier_key,
)
from interlock.command.audit.witness import CosignRefused, check_growth, check_signed, needs_proof, succeeds
from interlock.durable_files import replace_file
from interlock.gateway.audit.signing_key import KeyUnusable, load_or_make_key, load_public_key
from interlock.protocol.api.audit import AUDIT_CHECKPOINT, PROVE_CONSISTENCY
from interlock.protocol.problems import full_sentence

LOOK_EVERY_S = 60
LOOK_TIMEOUT_S = 60
"""A gateway that takes longer for one look, a byte at a time, counts as not reached."""
MAX_ANSWER_BYTES = 32_768
"""A checkpoint has at most 8 KiB, and a proof has 128 hashes."""
PASSING = frozenset({"Unreachable", "Unavailable", "RateLimited"})
"""Refusals that may pass: a witness that ended with them would watch no longer."""
VKEY_NAME = "witness.vkey"


class _Proof(msgspec.Struct):
    proof: list[str]


_proof = msgspec.json.Decoder(_Proof)


def witness(
    place: Path,
    *,
    key: Annotated[Path | None, Parameter(help="The gateway's public key (default: the state directory's).")] = None,
    name: Annotated[str, Parameter(help="The name beside the cosignature (default: interlock.witness).")] = \
        "interlock.witness",
    once: Annotated[bool, Parameter(help="Check once, and exit.")] = False,
    every: Annotated[int, Parameter(help=f"Seconds between two checks (default: {LOOK_EVERY_S}).")] = LOOK_EVERY_S,
    where: Here = NOWHERE,
) -> int:
    """Cosign a gateway's audit log for as long as it only grows; end with status 1 when it does not.

    Parameters
    ----------
    place
        The witness's own directory: its key, the newest cosigned checkpoint, and evidence. Keep it away
        from the gateway's machine.
    """
    if every < 1:
        raise usage("--every is at least 1 second.")
    if not name or set(name) & set(" +\t\n"):
        raise usage("--name has no blanks and no plus signs.")
    path = key or where.directory() / PUBLIC_KEY_FILE
    try:
        log_key = load_public_key(path)
        own = load_or_make_key(place)
        replace_file(place / VKEY_NAME, (verifier_key(name, COSIGNATURE, own.public_key()) + "\n").encode())
    except KeyUnusable as error:
        raise usage(str(error), "Name the gateway's public key with --key.") from None
    except OSError as error:
        raise usage(f"{place} cannot be written: {error.strerror}.", "Name a directory of your own.") from None
    return asyncio.run(_watch(_Witness(place, name, own, log_key), where, every, once=once))


class _Witness:
    def __init__(self, place: Path, name: str, own: Ed25519PrivateKey, log_key: Ed25519PublicKey) -> None:
        self._place = place
        self._name = name
        self._own = own
        self._log_key = log_key

    def known(self, origin: str) -> Checkpoint | None:
        """Read the checkpoint that was cosigned last; None if there is none. Raises Trouble if the file was not
        cosigned by this witness."""
        path = self._path(origin)
        try:
            found = parse_checkpoint(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (NotANote, UnicodeError) as error:
            raise Trouble("Unreadable", f"{path} is not a checkpoint: {error}", "Restore it from a copy.") from None
        if cosigned_at(found, self._name, self._own.public_key()) is None:
            raise Trouble("Unreadable", f"{path} was not cosigned by this witness.", "Restore it from a copy.")
        return found

    def earlier(self, shown: Checkpoint) -> Checkpoint | None:
        """Return the checkpoint that `shown` has to continue: the last one of its log, otherwise of the log that its
        key has signed for the same tenant under another name. Raises Trouble, CosignRefused."""
        check_signed(shown, self._log_key)
        known = self.known(shown.origin)
        return known if known is not None else max(self._renamed(shown), key=lambda one: one.size, default=None)

    def _renamed(self, shown: Checkpoint) -> Iterator[Checkpoint]:
        for path in self._place.glob("*.checkpoint"):
            with suppress(OSError, UnicodeError, NotANote):
                found = parse_checkpoint(path.read_text(encoding="utf-8"))
                if succeeds(found, shown, self._log_key) and (
                        cosigned_at(found, self._name, self._own.public_key()) is not None):
                    yield found

    def take(self, known: Checkpoint | None, shown: Checkpoint, proof: list[bytes]) -> Checkpoint:
        """Cosign a checkpoint and store it. Raises CosignRefused, after evidence was written if there is any."""
        try:
            check_growth(known, shown, proof, self._log_key)
        except CosignRefused as refused:
            if refused.is_evidence and known is not None:
                self._keep_evidence(str(refused), known, shown, proof)
            raise
        cosigned = cosign(self._own, self._name, shown, int(time.time()))
        self._write(self._path(shown.origin), cosigned.note.encode())
        return cosigned

    def _write(self, path: Path, content: bytes) -> None:
        try:
            replace_file(path, content)
        except OSError as error:
            raise Trouble("Unwritable", f"{path} cannot be written: {error.strerror}.",
                          "Make room or give the directory back to this user, and start the witness again.") from None

    def _path(self, origin: str) -> Path:
        return self._place / (quote(origin, safe="") + ".checkpoint")

    def _keep_evidence(self, sentence: str, known: Checkpoint, shown: Checkpoint, proof: list[bytes]) -> None:
        document: dict[str, Any] = {"at_s": int(time.time()), "what": sentence, "cosigned": known.note,
                                    "shown": shown.note, "proof": [one.hex() for one in proof]}
        path = self._place / f"evidence-{document['at_s']}-{shown.size}.json"
        self._write(path, msgspec.json.encode(document) + b"\n")
        say(f"evidence: {path}")


async def _watch(witness_: _Witness, where: Where, every: int, *, once: bool) -> int:
    async with GatewayLink(where) as link:
        while True:
            try:
                cosigned = await _look(witness_, link)
                print_sentence(f"cosigned {cosigned.size} records of {cosigned.origin}")
            except CosignRefused as refused:
                print_sentence(f"not cosigned: {refused}")
                return ExitStatus.FAILED
            except Trouble as trouble:
                if once or trouble.code not in PASSING:
                    raise
                say(f"{full_sentence(trouble.sentence)} The next look is in {every} s.")
            if once:
                return ExitStatus.DONE
            await asyncio.sleep(every)


async def _look(witness_: _Witness, link: GatewayLink) -> Checkpoint:
    try:
        async with asyncio.timeout(LOOK_TIMEOUT_S):
            return await _cosign_next(witness_, link)
    except TimeoutError:
        raise Trouble("Unreachable", f"The gateway at {link.address.url} did not answer completely within "
                      f"{LOOK_TIMEOUT_S} s.", "Try again.") from None


async def _read(link: GatewayLink, path: str) -> bytes:
    """Read an answer of a gateway that may be hostile. Raises Trouble, CosignRefused."""
    raw = bytearray()
    async for piece in link.download(path):
        raw += piece
        if len(raw) > MAX_ANSWER_BYTES:
            raise CosignRefused(f"What the gateway shows is longer than {MAX_ANSWER_BYTES} bytes, so it is "
                                "neither a checkpoint nor a proof.", is_evidence=False)
    return bytes(raw)


async def _cosign_next(witness_: _Witness, link: GatewayLink) -> Checkpoint:
    raw = await _read(link, AUDIT_CHECKPOINT.at())
    try:
        shown = parse_checkpoint(raw.decode())
    except (NotANote, UnicodeError) as error:
        raise CosignRefused(f"What the gateway shows is not a checkpoint: {error}", is_evidence=False) from None
    known = witness_.earlier(shown)
    proof: list[bytes] = []
    if known is not None and known.origin == shown.origin and needs_proof(known, shown):
        path = f"{PROVE_CONSISTENCY.at()}?first={known.size}&second={shown.size}"
        with suppress(ValueError):  # Of msgspec as well: anything but a proof shows nothing.
            proof = [bytes.fromhex(one) for one in _proof.decode(await _read(link, path)).proof]
    return witness_.take(known, shown, proof)
