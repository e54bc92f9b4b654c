"""The transport of credentials: TLS in the gateway, or a trusted proxy before it (L-2)."""

from __future__ import annotations

import ssl
from pathlib import Path

from interlock.config import GatewaySection


class BindRefused(Exception):
    """Raised if the gateway cannot listen on the address; the text is one sentence with its remedy."""


def may_be_public(config: GatewaySection) -> bool:
    """Return whether a public address may be bound: with TLS, or behind proxies whose addresses are known."""
    return config.tls_cert is not None or bool(config.behind_proxy and config.trusted_proxies)


def tls_context(config: GatewaySection) -> ssl.SSLContext | None:
    """Load certificate and key, or return None if TLS is not configured. Raises BindRefused."""
    if config.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificate(context, config)
    return context


def load_certificate(context: ssl.SSLContext, config: GatewaySection) -> None:
    """Load certificate and key, also into a context in use: new connections get them. Raises BindRefused."""
    cert, key = (Path(str(path)).expanduser() for path in (config.tls_cert, config.tls_key))
    for path in (cert, key):
        if not path.is_file():
            raise BindRefused(f"There is no file {path}; correct `gateway.tls_cert` and `gateway.tls_key`.")
    try:
        # An empty password: an encrypted key is an error, not a prompt on the terminal.
        context.load_cert_chain(cert, key, password=lambda: b"")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise BindRefused(f"The certificate {cert} and the key {key} cannot be used: {error}; both are PEM files that "
                          "belong together, the key not encrypted.") from None
