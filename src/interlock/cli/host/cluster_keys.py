"""`interlock cluster-keys`: the keys that all gateways of a cluster share, created once (C-4)."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.cli.config.place import OWNER_KEY_FILE, write_private
from interlock.cli.display.terminal import result
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import usage


def cluster_keys(directory: Annotated[Path, Parameter(help="The directory to write to; existing files are "
                                                           "kept.")]) -> int:
    """Make the signing key of the audit log and the owner's key, for every gateway's state directory."""
    from interlock.gateway.access.credentials import new_key
    from interlock.gateway.audit.signing_key import KEY_NAME, PUBLIC_NAME, KeyUnusable, load_or_make_key

    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        load_or_make_key(directory)
        if not (directory / OWNER_KEY_FILE).exists():
            write_private(directory / OWNER_KEY_FILE, new_key(secrets.token_bytes).encode() + b"\n")
    except KeyUnusable as error:
        raise usage(str(error)) from None
    except OSError as error:
        raise usage(f"The keys cannot be written to {directory}: {error.strerror}.",
                    "Name another directory.") from None
    for name in (KEY_NAME, PUBLIC_NAME, OWNER_KEY_FILE):
        result(str(directory / name))
    return ExitStatus.DONE
