"""Where the NATS servers are, and who this gateway is to them: what `--bus` says."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from interlock.ports.bus import BusError

SCHEMES = ("nats", "tls", "ws", "wss")
FILES = ("ca", "cert", "key", "credentials")


class Places(NamedTuple):
    """`servers` are the addresses; `tls` and `credentials` hold for all of them."""

    servers: list[str]
    tls: ssl.SSLContext | None = None
    credentials: str | None = None

    def options(self) -> dict[str, Any]:
        """What the library is told."""
        given: dict[str, Any] = {"servers": self.servers}
        if self.tls is not None:
            given["tls"] = self.tls
        if self.credentials is not None:
            given["user_credentials"] = self.credentials
        return given

    def shown(self) -> str:
        """The addresses without passwords."""
        parts = [urlsplit(one) for one in self.servers]
        return ",".join(f"{one.scheme}://{one.hostname}:{one.port or 4222}" for one in parts)


def read_places(text: str) -> Places:
    """Read `nats://[user:password@]host:port,…?ca=FILE&cert=FILE&key=FILE&credentials=FILE`. Raises BusError."""
    first, _, query = text.partition("?")
    servers = [_server(one.strip()) for one in first.split(",")]
    files: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in FILES:
            raise BusError(f"--bus: there is no setting {name!r}; {', '.join(FILES)} there are.")
        if not Path(value).is_file():
            raise BusError(f"--bus: {name} names {value or 'nothing'}, and there is no such file.")
        files[name] = value
    return Places(servers, _tls(files, servers), files.get("credentials"))


def _server(text: str) -> str:
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in SCHEMES or not parts.hostname or port == 0:
        raise BusError(f"--bus: {text.rpartition('@')[2] or 'nothing'} is no address of NATS: write nats://host:port, "
                       "or several with commas.")
    return urlunsplit(parts)


def _tls(files: dict[str, str], servers: list[str]) -> ssl.SSLContext | None:
    if not files.keys() & {"ca", "cert", "key"} and not any(one.startswith("tls:") for one in servers):
        return None
    try:
        context = ssl.create_default_context(cafile=files.get("ca"))
        if "cert" in files:
            context.load_cert_chain(files["cert"], files.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise BusError(f"--bus: the certificate cannot be used: {error}.") from error
    return context
