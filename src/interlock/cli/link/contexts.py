"""The gateways that this person has logged in to: `<state>/contexts.json`, mode 0600 (Y-11).

A context is a name for a gateway, with the credential for it. `local` is the gateway of the state directory itself, and
is not in the file.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from interlock.cli.config.place import Where, write_private
from interlock.cli.verb_error import Trouble, usage

CONTEXTS_FILE = "contexts.json"
LOCK_FILE = "contexts.lock"
VARIABLE = "INTERLOCK_ON"
LOCAL = "local"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_CONTEXTS = 100
"""Maximum number of contexts; a file with more was not written by this program."""
OTHERS = 0o077
"""Bits of a file's mode that let others read or write it."""

Means = Literal["issuer", "code", "key"]
"""How a context was logged in: at an issuer, with a one-time code, or with an API key."""


class LoginRenewal(msgspec.Struct, frozen=True):
    """The data that a renewal sends to the issuer of the first token."""

    token_endpoint: str
    client_id: str
    refresh_token: str
    form: Literal["access_token", "id_token"]
    """Which token of the issuer's answer the gateway accepts."""


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gateway, and the credential for it."""

    name: str
    url: str
    means: Means
    credential: str = ""
    """The token, the key, or the two parts of a login with a code; empty after a logout."""
    ends_ms: int | None = None
    """When the credential ends, if that is known."""
    renew_ms: int | None = None
    """When the credential is to be renewed, or reported as ended."""
    renewal: LoginRenewal | None = None
    issuer: str = ""
    """Which issuer, by its URL."""
    ca: str = ""
    """PEM file of the CA that was named at the login."""
    directory: str = ""
    """The default workspace, on the runner's host, of tasks that are run from here."""


class Contexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """All contexts, and the name of the one in use."""

    current: str = LOCAL
    known: list[Context] = []

    def find(self, name: str) -> Context | None:
        """Find a context by its name; None if there is none."""
        return next((one for one in self.known if one.name == name), None)

    def named(self, name: str) -> Context:
        """Find a context by its name. Raises Trouble."""
        found = self.find(name)
        if found is None:
            others = ", ".join([LOCAL, *(one.name for one in self.known)])
            raise Trouble("NotFound", f"There is no context {name!r}; there are: {others}.",
                          f"Make it with: interlock login URL --on {name}")
        return found

    def with_(self, context: Context) -> Contexts:
        """Return the contexts with this one added, or replacing the one of its name."""
        others = [one for one in self.known if one.name != context.name]
        return Contexts(self.current, [*others, context])

    def without(self, name: str) -> Contexts:
        """Return the contexts without one; if it was in use, the gateway of this machine is used again."""
        return Contexts(LOCAL if self.current == name else self.current,
                        [one for one in self.known if one.name != name])

    def using(self, name: str) -> Contexts:
        """Return the contexts with another one in use."""
        return Contexts(name, self.known)


def read(state: Path) -> Contexts:
    """Read the contexts of a state directory; an empty list if there is no file. Raises Trouble."""
    path = state / CONTEXTS_FILE
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read()
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise usage(f"The contexts in {path} cannot be read: {error.strerror}.",
                    "Read it as the user who owns it.") from None
    if mode & OTHERS:
        raise usage(f"The file {path} holds credentials and is open to other users (mode {mode & 0o777:o}).",
                    f"Close it with: chmod 600 {path}")
    try:
        found = msgspec.json.decode(raw, type=Contexts)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise usage(f"The contexts in {path} are damaged: {error}.",
                    "Remove the file, and log in again with: interlock login URL") from None
    return found


@contextmanager
def changing(state: Path) -> Generator[None]:
    """Lock the file for this process: two processes that renew a token would end each other's."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(state / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write(state: Path, contexts: Contexts) -> None:
    """Write the contexts atomically. Raises Trouble if there are more than MAX_CONTEXTS."""
    if len(contexts.known) > MAX_CONTEXTS:
        raise usage(f"There are {MAX_CONTEXTS} contexts already.", "Remove one with: interlock contexts remove NAME")
    write_private(state / CONTEXTS_FILE, msgspec.json.format(msgspec.json.encode(contexts), indent=1) + b"\n")


def checked_name(text: str) -> str:
    """Check a context's name. Raises Trouble."""
    if NAME.fullmatch(text) is None or text == LOCAL:
        raise usage(f"{text!r} cannot be a context's name.",
                    f"Use letters, digits, dots and dashes; `{LOCAL}` is the gateway of this machine.")
    return text


def name_for(url: str) -> str:
    """Return a name for a context: its gateway's host, and the port if it is not the scheme's default."""
    parts = urlsplit(url)
    host = (parts.hostname or "gateway").replace(":", "-")
    return f"{host}-{parts.port}" if parts.port else host


def chosen(where: Where) -> Context | None:
    """Return the context of a verb: `--on`, otherwise `$INTERLOCK_ON`, otherwise the one in use; None for the gateway
    of this machine. `--url` and `$INTERLOCK_URL` precede the latter two. Raises Trouble."""
    if where.on is not None and where.url is not None:
        raise usage("--on and --url both name a gateway.", "Give one of them.")
    named = where.on
    if named is None:
        if where.url or os.environ.get("INTERLOCK_URL"):
            return None
        named = os.environ.get(VARIABLE)
    known = read(where.directory())
    name = named or known.current
    return None if name == LOCAL else known.named(name)


def of_url(state: Path, url: str) -> Context | None:
    """Find a context by its gateway's URL: a verb with `--url` needs no key if this person is logged in there."""
    return next((one for one in read(state).known if one.url == url and one.credential), None)
