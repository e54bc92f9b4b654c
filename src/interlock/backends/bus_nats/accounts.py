"""Account files of a gateway on NATS: a token, an NKey's seed, or credentials (a JWT with its seed).

They are checked before they are passed to the library, which searches a file without a JWT forever.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Protocol, cast

from interlock.ports.bus import BusError
from interlock.protocol.extras import install

ACCOUNT_FILES = ("credentials", "nkey", "token")
MAX_ACCOUNT_BYTES = 64 * 1024
"""A larger file is not an account file."""
JWT_MARK, SEED_MARK = "BEGIN NATS USER JWT", "BEGIN USER NKEY SEED"


class _Key(Protocol):
    def wipe(self) -> None: ...


class _Keys(Protocol):
    """The part of `nkeys` that is used, which has no types."""

    def from_seed(self, seed: bytearray) -> _Key: ...


def read_account(kind: str, path: str) -> dict[str, Any]:
    """Return the library's options for an account, from its file. Raises BusError."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_ACCOUNT_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BusError(f"--bus: {kind} names {path}, which cannot be read: {error}.") from error
    match kind:
        case "token":
            if not text or any(char.isspace() for char in text):
                raise BusError(f"--bus: token names {path}, which holds no token: one line without spaces.")
            return {"token": text}
        case "nkey":
            _check_seed(kind, path, text)
            return {"nkeys_seed_str": text}
        case _:
            return {"user_credentials": _credentials(path, text)}


def _credentials(path: str, text: str) -> object:
    lines = [line.strip() for line in text.splitlines()]
    pairs = list(itertools.pairwise(lines))
    after = {mark: next_line for line, next_line in pairs for mark in (JWT_MARK, SEED_MARK) if mark in line}
    if after.keys() != {JWT_MARK, SEED_MARK}:
        raise BusError(f"--bus: credentials names {path}, which is no .creds file: it has a user's JWT and its seed.")
    _check_seed("credentials", path, after[SEED_MARK])
    from nats.aio.client import RawCredentials

    return RawCredentials("\n".join((*lines, "")))


def _check_seed(kind: str, path: str, seed: str) -> None:
    try:
        import nkeys
    except ModuleNotFoundError:
        raise BusError(f"--bus: {kind} needs the extra cluster: {install('cluster')}.") from None
    try:
        cast("_Keys", nkeys).from_seed(bytearray(seed.encode())).wipe()
    except Exception as error:
        raise BusError(f"--bus: {kind} names {path}, which holds no NKey's seed of a user (SU…).") from error
