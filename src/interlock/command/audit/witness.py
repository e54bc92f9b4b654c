"""A witness's decision: whether a log has only grown since the witness last saw it (U-3)."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.command.audit.audit_tree import continues
from interlock.command.audit.note import Checkpoint, is_genuine


class CosignRefused(Exception):
    """Raised for a checkpoint that is not cosigned. `is_evidence` if the log's own signatures contradict each other."""

    def __init__(self, sentence: str, *, is_evidence: bool) -> None:
        super().__init__(sentence)
        self.is_evidence = is_evidence


def needs_proof(known: Checkpoint | None, shown: Checkpoint) -> bool:
    """Return whether only a proof of consistency can show that `shown` continues `known`."""
    return known is not None and 0 < known.size < shown.size


def check_growth(
    known: Checkpoint | None, shown: Checkpoint, proof: Sequence[bytes], public_key: Ed25519PublicKey
) -> None:
    """Check that `shown` may be cosigned after `known`, the last one that was. Raises CosignRefused."""
    if not is_genuine(shown, public_key):
        raise CosignRefused(f"The checkpoint of {shown.origin} does not bear the signature of the log's key.",
                            is_evidence=False)
    if known is None:
        return
    if shown.origin != known.origin:
        raise CosignRefused(f"The gateway shows the log {shown.origin}, and this witness watches {known.origin}.",
                            is_evidence=False)
    if shown.size < known.size:
        raise CosignRefused(f"The log went back: it had {known.size} records, and now shows {shown.size}.",
                            is_evidence=True)
    if not continues(known.size, known.root, shown.size, shown.root, proof):
        raise CosignRefused(f"The log of {shown.size} records does not continue the one of {known.size} that was "
                            f"cosigned: "
                            "it was rewritten, or forked.", is_evidence=True)
