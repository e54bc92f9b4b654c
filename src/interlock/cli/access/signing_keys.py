"""`interlock signing-keys`, and a vote signed with this state directory's key (P-4)."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here, Where, write_private
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import print_sentence, result, say
from interlock.cli.display.values import ago
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.options import Json
from interlock.cli.verb_answer import ListTable, print_answer
from interlock.cli.verb_error import Trouble, usage
from interlock.command.signature import Statement
from interlock.protocol.answers import SigningKeyList
from interlock.protocol.api.access import LIST_SIGNING_KEYS
from interlock.protocol.clock import iso
from interlock.protocol.resources import Approval, Decision, SigningKey
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.approvals import add_signing_key, revoke_signing_key
from interlock.sdk.requests.base import read

SIGNING_KEY_FILE = "signing.key"
KEY = short_ids.IdKind("signing key", LIST_SIGNING_KEYS.at(), "sgk_", "signing-keys")
SIGNING_KEYS = ListTable[SigningKeyList](
    header=("KEY", "OF", "STATE", "LABEL", "REGISTERED"),
    rows=lambda answer: [[one.key_id, f"{one.owner.type}:{one.owner.id}", "revoked" if one.revoked_at else "good",
                          one.label, ago(one.created_at)] for one in answer.signing_keys],
    layout=Layout(text=("OF", "LABEL"), drop=("REGISTERED", "LABEL")),
    empty="no key signs votes yet; make one with: interlock signing-keys create")


def signing_keys(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the keys that sign votes."""
    return print_answer(where, read(LIST_SIGNING_KEYS), SIGNING_KEYS.show, json=json)


def create(
    *,
    label: Annotated[str, Parameter(help="The key's name in lists, such as its machine.")] = "",
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Make a key in the state directory, if there is none, and register it as yours."""
    file = where.made_directory() / SIGNING_KEY_FILE
    if not file.exists():
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        write_private(file, pem)

    def show(made: SigningKey) -> None:
        result(made.key_id)
        say(f"its private half is {file}, mode 0600; sign a vote with: interlock approve ID --sign", "dim")

    return print_answer(where, add_signing_key(_public(_read(file)), label=label), show, json=json)


def revoke(
    id_: Annotated[str, Parameter(name="ID", help="The key: its id, a unique beginning, or @last.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Revoke a signing key."""
    async def request(link: GatewayLink) -> RequestSpec[SigningKey]:
        found = await _keys(link)
        usable = [one for one in found if one.revoked_at is None] if id_ == short_ids.LAST else found
        return revoke_signing_key(
            short_ids.pick(id_, usable, KEY, lambda one: one.key_id, lambda one: one.created_at).key_id)

    return print_answer(where, request, lambda revoked: print_sentence(
        f"{revoked.key_id} is revoked; votes that it signs are refused"), json=json)


class Signer:
    """Signs votes with the key of a state directory. Raises Trouble if the directory has none."""

    def __init__(self, where: Where) -> None:
        file = where.directory() / SIGNING_KEY_FILE
        if not file.exists():
            raise usage(f"There is no signing key in {file.parent}.", "Make one with: interlock signing-keys create")
        self._key = _read(file)
        self.public_key = _public(self._key)

    async def sign(self, link: GatewayLink, approval: Approval, decision: Decision) -> dict[str, str]:
        """Return the members of a vote's body that sign it."""
        mine = next((one for one in await _keys(link) if one.public_key == self.public_key), None)
        if mine is None or mine.revoked_at is not None:
            so = "is not registered" if mine is None else f"was revoked as {mine.key_id}"
            raise Trouble("Forbidden", f"The signing key of this directory {so} at this gateway.",
                          "Register one with: interlock signing-keys create")
        at = iso(int(datetime.now(UTC).timestamp() * 1000))
        statement = Statement(approval.tenant_id, approval.id, approval.digest, decision,
                              f"{mine.owner.type}:{mine.owner.id}", mine.key_id, at)
        signature = base64.b64encode(self._key.sign(statement.signed_bytes())).decode()
        return {"method": "signature", "key_id": mine.key_id, "at": at, "signature": signature}


async def _keys(link: GatewayLink) -> list[SigningKey]:
    return (await link.ask(read(LIST_SIGNING_KEYS))).signing_keys


def _read(file: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise usage(f"The signing key {file} cannot be read: {error}.",
                    "Remove it and make another: interlock signing-keys create") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise usage(f"The signing key {file} is not an Ed25519 key.", "Remove it and make another.")
    return key


def _public(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()
