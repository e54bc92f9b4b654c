"""`interlock audit witness`: watch a gateway's audit log from outside, and cosign checkpoints that only extend it
(U-3)."""

from __future__ import annotations

import asyncio
import time
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
from interlock.command.audit.witness import CosignRefused, check_growth, needs_proof
from interlock.gateway.audit.signing_key import KeyUnusable, load_or_make_key, load_public_key, write_durably
from interlock.protocol.api.audit import AUDIT_CHECKPOINT, PROVE_CONSISTENCY

LOOK_EVERY_S = 60
VKEY_NAME = "witness.vkey"


class _Proof(msgspec.Struct):
    proof: list[str]


def witness(
    place: Path,
    *,
    key: Annotated[Path | None, Parameter(help="The gateway's public key (default: the state directory's).")] = None,
    name: Annotated[str, Parameter(help="The name beside the cosignature.")] = "interlock.witness",
    once: Annotated[bool, Parameter(help="Check once, and exit.")] = False,
    every: Annotated[int, Parameter(help="Seconds between two checks.")] = LOOK_EVERY_S,
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
        write_durably(place / VKEY_NAME, (verifier_key(name, COSIGNATURE, own.public_key()) + "\n").encode())
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

    def take(self, known: Checkpoint | None, shown: Checkpoint, proof: list[bytes]) -> Checkpoint:
        """Cosign a checkpoint and store it. Raises CosignRefused, after evidence was written if there is any."""
        try:
            check_growth(known, shown, proof, self._log_key)
        except CosignRefused as refused:
            if refused.is_evidence and known is not None:
                self._keep_evidence(str(refused), known, shown, proof)
            raise
        cosigned = cosign(self._own, self._name, shown, int(time.time()))
        write_durably(self._path(shown.origin), cosigned.note.encode())
        return cosigned

    def _path(self, origin: str) -> Path:
        return self._place / (quote(origin, safe="") + ".checkpoint")

    def _keep_evidence(self, sentence: str, known: Checkpoint, shown: Checkpoint, proof: list[bytes]) -> None:
        document: dict[str, Any] = {"at_s": int(time.time()), "what": sentence, "cosigned": known.note,
                                    "shown": shown.note, "proof": [one.hex() for one in proof]}
        path = self._place / f"evidence-{document['at_s']}-{shown.size}.json"
        write_durably(path, msgspec.json.encode(document) + b"\n")
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
                if once or trouble.code != "Unreachable":
                    raise
                say(f"the gateway at {link.address.url} was not reached; the next look is in {every} s")
            if once:
                return ExitStatus.DONE
            await asyncio.sleep(every)


async def _look(witness_: _Witness, link: GatewayLink) -> Checkpoint:
    raw = b"".join([piece async for piece in link.download(AUDIT_CHECKPOINT.at())])
    try:
        shown = parse_checkpoint(raw.decode())
    except (NotANote, UnicodeError) as error:
        raise CosignRefused(f"What the gateway shows is not a checkpoint: {error}", is_evidence=False) from None
    known = witness_.known(shown.origin)
    proof: list[bytes] = []
    if known is not None and needs_proof(known, shown):
        asked = {"first": str(known.size), "second": str(shown.size)}
        answer = await link.read(PROVE_CONSISTENCY.at(), _Proof, asked)
        try:
            proof = [bytes.fromhex(one) for one in answer.proof]
        except ValueError:
            proof = []
    return witness_.take(known, shown, proof)
