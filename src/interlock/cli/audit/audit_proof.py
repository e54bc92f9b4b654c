"""`interlock audit verify --proof`: the records of one command, checked against a signed checkpoint, offline (O-10)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from interlock.cli.config.place import PUBLIC_KEY_FILE, Where
from interlock.cli.display.terminal import one_line, print_json, print_sentence, result
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import usage


def verify_proof(file: Path, key: Path | None, where: Where, *, json: bool) -> int:
    """Check a proof file; returns exit status 1 if it proves nothing. Raises Trouble if the file cannot be read."""
    from interlock.command.audit.record_proof import MAX_PROOF_FILE_BYTES, check
    from interlock.gateway.audit.signing_key import KeyUnusable, load_public_key

    path = key or where.directory() / PUBLIC_KEY_FILE
    if key is None and not path.exists():
        raise usage("Without the gateway's public key a proof proves nothing.", "Name gateway.pub with --key.")
    try:
        public = load_public_key(path)
    except KeyUnusable as error:
        raise usage(str(error), "Name the gateway's public key with --key.") from None
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_PROOF_FILE_BYTES + 1)
    except OSError as error:
        raise usage(f"{file} cannot be read: {error.strerror}.", "Name a proof file.") from None
    report = check(raw, public)
    if json:
        print_json(msgspec.json.encode(report))
    else:
        place = f" at record {report.seq}" if report.seq is not None else ""
        kind = f" ({report.kind})" if report.kind is not None else ""
        print_sentence(f"{'ok' if report.ok else f'not ok{place}{kind}'}: {report.message}")
        for row in report.rows:
            result(f"  {one_line(row)}")
    return ExitStatus.DONE if report.ok else ExitStatus.FAILED
