"""A witness's decision: whether a log has only grown since the witness last saw it (U-3)."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.command.audit.audit_tree import continues
from interlock.command.audit.note import ORIGIN_PREFIX, Checkpoint, is_genuine

MAX_ORIGIN_CHARS = 160
"""A longer name of a log is refused: a witness keeps a file by that name. Interlock's have at most some 100."""


class CosignRefused(Exception):
    """Raised for a checkpoint that is not cosigned. `is_evidence` if the log's own signatures contradict each other."""

    def __init__(self, sentence: str, *, is_evidence: bool) -> None:
        super().__init__(sentence)
        self.is_evidence = is_evidence


def needs_proof(known: Checkpoint | None, shown: Checkpoint) -> bool:
    """Return whether only a proof of consistency can show that `shown` continues `known`."""
    return known is not None and 0 < known.size < shown.size


def check_signed(shown: Checkpoint, public_key: Ed25519PublicKey) -> None:
    """Check that the log's key signed a checkpoint, and that it is one of a gateway's log. Raises CosignRefused."""
    if not is_genuine(shown, public_key):
        raise CosignRefused(f"The checkpoint of {shown.origin[:MAX_ORIGIN_CHARS]} does not bear the signature of the "
                            "log's key.", is_evidence=False)
    if not (shown.origin.startswith(ORIGIN_PREFIX) and shown.origin.isascii() and shown.origin.isprintable()
            and len(shown.origin) <= MAX_ORIGIN_CHARS):
        raise CosignRefused(f"The checkpoint is of no gateway's log: {shown.origin[:MAX_ORIGIN_CHARS]!r}.",
                            is_evidence=False)


def succeeds(known: Checkpoint, shown: Checkpoint, public_key: Ed25519PublicKey) -> bool:
    """Return whether one key signed the logs of one tenant under two names of its gateway: who rewrites a log and
    renames it would otherwise begin again with a witness that knows nothing."""
    return known.origin != shown.origin and known.tenant_id == shown.tenant_id and is_genuine(known, public_key)


def check_growth(
    known: Checkpoint | None, shown: Checkpoint, proof: Sequence[bytes], public_key: Ed25519PublicKey
) -> None:
    """Check that `shown` may be cosigned after `known`, the last one that was. Raises CosignRefused."""
    check_signed(shown, public_key)
    if known is None:
        return
    if shown.origin != known.origin:
        raise CosignRefused(f"The gateway shows the log {shown.origin}, and this witness watches {known.origin}, which "
                            "the same key signed. If it is another gateway with that key, give it a directory of its "
                            "own.", is_evidence=succeeds(known, shown, public_key))
    if shown.size < known.size:
        raise CosignRefused(f"The log went back: it had {known.size} records, and now shows {shown.size}.",
                            is_evidence=True)
    if not continues(known.size, known.root, shown.size, shown.root, proof):
        raise CosignRefused(f"The log of {shown.size} records does not continue the one of {known.size} that was "
                            f"cosigned: "
                            "it was rewritten, or forked.", is_evidence=True)
