"""The certificates by which a verb or a runner verifies its gateway (L-2)."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path

from interlock.cli.config.place import gateway_file
from interlock.cli.verb_error import usage

_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def tls(url: str, state: Path, ca: Path | None = None) -> ssl.SSLContext | None:
    """Return the context that verifies a TLS connection to `url`; None if the URL does not use TLS.

    `ca`, otherwise $INTERLOCK_CA, names certificates that are trusted beside the system's. The gateway of this state
    directory is verified by its own certificate, under any host name. Raises Trouble.
    """
    if not url.startswith("https:"):
        return None
    named = ca or (Path(os.environ["INTERLOCK_CA"]) if os.environ.get("INTERLOCK_CA") else None)
    context = ssl.create_default_context()
    if named is not None:
        _trust(context, named.expanduser())
        return context
    running = gateway_file(state)
    if running is not None and running.cert and running.url.rstrip("/") == url.rstrip("/"):
        return _pinned(Path(running.cert))
    return context


def remedy(why: str) -> str:
    """Return the remedy for a certificate that is not trusted; "" for any other failure of a connection."""
    return ("Name the CA's certificates with --ca FILE, or $INTERLOCK_CA."
            if "CERTIFICATE_VERIFY_FAILED" in why else "")


def _trust(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise usage(f"The certificates in {ca} cannot be used: {error}.", "Name a PEM file with --ca.") from None


def _pinned(cert: Path) -> ssl.SSLContext:
    """Return a context that trusts this certificate only, and none that it or another key has signed."""
    try:
        first = _PEM.search(cert.read_text("ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"The gateway's certificate {cert} cannot be read: {error}.",
                    "Read it as the user who runs the gateway, or name its CA with $INTERLOCK_CA.") from None
    if first is None:
        raise usage(f"There is no certificate in {cert}.", "Correct `gateway.tls_cert`.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Only the leaf is an anchor, so the name in it need not be checked.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    context.load_verify_locations(cadata=first[0])
    return context
