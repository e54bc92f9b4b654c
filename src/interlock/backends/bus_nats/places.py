"""The NATS servers, and this gateway's account there: the value of `--bus`."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import nats.errors

from interlock.backends.bus_nats.accounts import ACCOUNT_FILES, read_account
from interlock.ports.bus import BusError

SCHEMES = ("nats", "tls")
TLS_FILES = ("ca", "cert", "key")
FILES = (*TLS_FILES, *ACCOUNT_FILES)
ACCOUNT_WORDS = ("authorization", "authentication")
"""Common words of the server's refusals of an account, in lower case."""


class InClear(nats.errors.Error):
    """Raised if a server that must use TLS does not require it: nothing was sent to it."""


class NatsServers(NamedTuple):
    """The bus's servers. `servers` are the addresses, without user and password; all else applies to all of them.
    `account` is the kind of file with this gateway's account, and its path."""

    servers: list[str]
    tls: ssl.SSLContext | None = None
    user: str | None = None
    password: str | None = None
    account: tuple[str, str] | None = None
    certified: bool = False
    """Whether `tls` presents a certificate of this gateway."""

    def options(self) -> dict[str, Any]:
        """Return the library's options to connect. Files are read again each time, since their contents expire. Raises
        BusError."""
        found: dict[str, Any] = {"servers": self.servers}
        if self.tls is not None:
            found["tls"] = self.tls
        if self.account is not None:
            found |= read_account(*self.account)
        elif self.password is not None:
            found |= {"user": self.user, "password": self.password}
        elif self.user is not None:
            found["token"] = self.user
        return found

    def shown(self) -> str:
        """Return the addresses without passwords."""
        parts = [urlsplit(one) for one in self.servers]
        return ",".join(f"{one.scheme}://{one.hostname}:{one.port or 4222}" for one in parts)

    def refusal(self, error: Exception) -> str | None:
        """Return one sentence if the servers are reachable and a retry cannot help; otherwise None."""
        reason = str(error).removeprefix("nats: ").strip("'").rstrip(".")
        if isinstance(error, BusError):
            return str(error)
        if isinstance(error, InClear):
            return (f"--bus: the NATS server at {self.shown()} does not ask for TLS, and the address does: nothing was "
                    "sent to it. Give the server a certificate (and no allow_non_tls), or write nats:// without ca.")
        if isinstance(error, ssl.SSLCertVerificationError):
            return (f"--bus: the certificate of the NATS server at {self.shown()} is not trusted "
                    f"({error.verify_message.rstrip('.')}): name its authority with ?ca=FILE, and the server as its "
                    "certificate does.")
        if isinstance(error, ssl.SSLError):
            return (f"--bus: TLS with the NATS server at {self.shown()} fails ({error.reason or reason}): where it "
                    "requires a certificate of the gateway, name one with ?cert=FILE&key=FILE.")
        if isinstance(error, nats.errors.Error) and any(word in reason.lower() for word in ACCOUNT_WORDS):
            return (f"--bus: the NATS server at {self.shown()} refuses this gateway ({reason}): check the user and "
                    "password or the token of the address, or the file that credentials, nkey or token names.")
        return None


    def reason(self, error: Exception) -> str:
        """Return why the servers could not be reached, for a log."""
        if (known := self.refusal(error)) is not None:
            return known
        reason = str(error) or type(error).__name__
        if isinstance(error, ConnectionError) and self.tls is not None and not self.certified:
            return f"{reason}: if the server requires a certificate of the gateway, name one with ?cert=FILE&key=FILE"
        return reason


def read_places(text: str) -> NatsServers:
    """Parse `nats://[user:password@ or token@]host:port,…?ca=FILE&cert=FILE&key=FILE`, and one of `credentials`, `nkey`
    and `token`, each a file. Raises BusError."""
    first, _, query = text.partition("?")
    read = [_server(one.strip()) for one in first.split(",")]
    files: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in FILES:
            raise BusError(f"--bus: there is no setting {name!r}; {', '.join(FILES)} there are.")
        if not Path(value).is_file():
            raise BusError(f"--bus: {name} names {value or 'nothing'}, and there is no such file.")
        files[name] = value
    servers, known = [server for server, _ in read], {who for _, who in read} - {(None, None)}
    accounts = [(name, files[name]) for name in ACCOUNT_FILES if name in files]
    if len(known) + len(accounts) > 1:
        raise BusError("--bus: a gateway has one account on the bus: name one user, or token, or file.")
    user, password = next(iter(known), (None, None))
    places = NatsServers(servers, _tls(files, servers), user, password, next(iter(accounts), None),
                         certified="cert" in files)
    places.options()
    return places


def _server(text: str) -> tuple[str, tuple[str | None, str | None]]:
    """Return an address without its account, and the account: user and password, or a token."""
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in SCHEMES or not parts.hostname or port == 0:
        raise BusError(f"--bus: {text.rpartition('@')[2] or 'nothing'} is not an address of NATS: write "
                       "nats://host:port, or several with commas.")
    who = tuple(unquote(one) if one else None for one in (parts.username, parts.password))
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), (who[0], who[1])


def _tls(files: dict[str, str], servers: list[str]) -> ssl.SSLContext | None:
    if not files.keys() & set(TLS_FILES) and not any(one.startswith("tls:") for one in servers):
        return None
    if "key" in files and "cert" not in files:
        raise BusError("--bus: key names the key of a certificate: name that with cert.")
    try:
        context = ssl.create_default_context(cafile=files.get("ca"))
        if "cert" in files:
            context.load_cert_chain(files["cert"], files.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise BusError(f"--bus: the certificate cannot be used: {error}.") from error
    return context
