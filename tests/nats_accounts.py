"""Accounts of NATS, made for one test: seeds, and an operator with an account whose users have .creds files."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import nkeys


class Identity(NamedTuple):
    """An NKey: its seed, and its public half."""

    seed: str
    public: str

    def sign(self, text: bytes) -> bytes:
        return nkeys.from_seed(bytearray(self.seed.encode())).sign(text)


def identity(prefix: int = nkeys.PREFIX_BYTE_USER) -> Identity:
    """Create a key pair, for a user or the kind of the prefix."""
    seed = bytes(nkeys.encode_seed(os.urandom(32), prefix))
    return Identity(seed.decode(), nkeys.from_seed(bytearray(seed)).public_key.decode())  # pyright: ignore[reportAttributeAccessIssue] - bytes


class Operator:
    """The operator of the servers; it has one account."""

    def __init__(self) -> None:
        self._own, self._account = identity(nkeys.PREFIX_BYTE_OPERATOR), identity(nkeys.PREFIX_BYTE_ACCOUNT)

    def config(self, path: Path) -> Path:
        """Write a server's configuration that lets in the users of the account."""
        none = dict.fromkeys(("subs", "conn", "leaf", "imports", "exports", "data", "payload"), -1)
        account = _signed(self._own, self._account.public, "account", limits={**none, "wildcards": True})
        path.write_text(f"operator: {_signed(self._own, self._own.public, 'operator')}\nresolver: MEMORY\n"
                        f"resolver_preload: {{ {self._account.public}: {account} }}\n")
        return path

    def credentials(self, path: Path) -> Path:
        """Write the .creds file of a new user."""
        user = identity()
        jwt = _signed(self._account, user.public, "user", subs=-1, data=-1, payload=-1)
        path.write_text(f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
                        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n")
        return path


def _signed(issuer: Identity, subject: str, kind: str, **claims: Any) -> str:
    now = int(time.time())
    body = {"jti": os.urandom(8).hex(), "iat": now, "iss": issuer.public, "sub": subject, "name": kind,
            "nats": {**claims, "type": kind, "version": 2}}
    parts = [_part(json.dumps(one).encode()) for one in ({"typ": "JWT", "alg": "ed25519-nkey"}, body)]
    return ".".join((*parts, _part(issuer.sign(".".join(parts).encode()))))


def _part(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
