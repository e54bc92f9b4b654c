"""`interlock keys` and `interlock whoami`: who may ask the gateway, and as whom (K-1)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.columns import Layout
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import one_line, print_json, print_sentence, print_table, result, say
from interlock.cli.values import ago, milliseconds, until
from interlock.cli.verb_error import usage
from interlock.protocol.access import GIVEN_ROLES, Key, MadeKey, Whoami
from interlock.protocol.api.access import LIST_KEYS, MAKE_KEY, REVOKE_KEY, ROTATE_KEY, WHOAMI

Json = Annotated[bool, Parameter(help="Print one JSON document.")]
COLUMNS = Layout(text=("FOR", "LABEL"), extra=("MADE", "LAST USED"), drop=("LABEL", "ROLES"))
Id = Annotated[str, Parameter(name="ID", help="The key: its id, a unique beginning, or @last.")]
Tenant = Annotated[str | None, Parameter(name="--tenant", help="Another tenant than one's own; for an owner alone.")]


def keys(*, tenant: Tenant = None, json: Json = False, where: Here = NOWHERE) -> int:
    """List the keys of a tenant."""
    return asyncio.run(_list(tenant, where, json=json))


def create(
    person: Annotated[str, Parameter(name="WHO", help="The person, or with --agent the program, it stands for.")],
    /,
    *,
    role: Annotated[list[str] | None, Parameter(name="--role", help=f"What it allows: {', '.join(GIVEN_ROLES)}; "
                                                "may stand several times.")] = None,
    label: Annotated[str, Parameter(help="A note for the list: which machine, what for.")] = "",
    expires: Annotated[str | None, Parameter(help="How long it is good: 12h, 90d. Without it, until it is revoked.")]
    = None,
    agent: Annotated[bool, Parameter(help="It is a program's, not a person's.")] = False,
    driver: Annotated[str | None, Parameter(help="With --agent: the person who drives it, whose votes its votes are; "
                                            "without it, you.")] = None,
    tenant: Tenant = None,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Make a key, and show it once."""
    if not role:
        raise usage("A key needs a role.", f"Give one with --role: {', '.join(GIVEN_ROLES)}.")
    body: dict[str, Any] = {"principal": {"type": "agent" if agent else "user", "id": person}, "roles": role,
                            "label": label}
    if driver is not None:
        if not agent:
            raise usage("--driver says who drives a program.", "Add --agent, or leave --driver out.")
        body["driver"] = driver
    if tenant is not None:
        body["tenant_id"] = tenant
    if expires is not None:
        body["ttl_ms"] = milliseconds(expires, "--expires")
    return asyncio.run(_create(body, where, json=json))


def rotate(id_: Id, /, *, tenant: Tenant = None, json: Json = False, where: Here = NOWHERE) -> int:
    """Give a key another secret; the old one is refused at once."""
    return asyncio.run(_rotate(id_, tenant, where, json=json))


def revoke(id_: Id, /, *, tenant: Tenant = None, json: Json = False, where: Here = NOWHERE) -> int:
    """Refuse a key for ever."""
    return asyncio.run(_revoke(id_, tenant, where, json=json))


def whoami(*, json: Json = False, where: Here = NOWHERE) -> int:
    """Print this key's actor, and what it allows."""
    return asyncio.run(_whoami(where, json=json))


def _made(key: Key) -> str:
    return ago(key.created_at) + (f" by {key.created_by}" if key.created_by is not None else "")


async def _list(tenant: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(LIST_KEYS.at(), _of(tenant))
    if json:
        print_json(raw)
        return ExitStatus.DONE
    found = decoded(raw, dict[str, list[Key]], LIST_KEYS.at())["keys"]
    if not found:
        say("there is no key; make one with: interlock keys create WHO --role operator", "dim")
        return ExitStatus.DONE
    print_table([[one.key_id, f"{one.principal.type}:{one.principal.id}", ", ".join(one.roles),
                  one.label, _state(one), ago(one.last_used_at) if one.last_used_at else "never",
                  _made(one)] for one in sorted(found, key=lambda one: one.revoked)],
                ("KEY", "FOR", "ROLES", "LABEL", "STATE", "LAST USED", "MADE"), COLUMNS)
    return ExitStatus.DONE


async def _create(body: dict[str, Any], where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.send(MAKE_KEY.at(), body)
    _show_once(raw, LIST_KEYS.at(), json=json)
    return ExitStatus.DONE


async def _rotate(id_: str, tenant: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        key = await _named(link, id_, tenant)
        path = ROTATE_KEY.at(key.key_id)
        raw = await link.send(path, {})
    _show_once(raw, path, json=json)
    return ExitStatus.DONE


async def _revoke(id_: str, tenant: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        key = await _named(link, id_, tenant)
        raw = await link.send(REVOKE_KEY.at(key.key_id), {})
    if json:
        print_json(raw)
    else:
        print_sentence(f"{key.key_id} ({one_line(key.principal.id)}) is revoked")
    return ExitStatus.DONE


async def _whoami(where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(WHOAMI.at())
    if json:
        print_json(raw)
        return ExitStatus.DONE
    answer = decoded(raw, Whoami, WHOAMI.at())
    print_sentence(f"{answer.principal.type}:{one_line(answer.principal.id)} · tenant {answer.tenant_id} · "
                   f"{', '.join(answer.roles)} · {answer.key_id}")
    return ExitStatus.DONE


def _show_once(raw: bytes, path: str, *, json: bool) -> None:
    if json:
        print_json(raw)
        return
    made = decoded(raw, MadeKey, path)
    result(made.key)
    good = f"good for {until(made.expires_at)}" if made.expires_at else "good until it is revoked"
    say(f"{made.key_id}, {good}; it is shown this once. To use it, set $INTERLOCK_KEY")


def _state(key: Key) -> str:
    if key.revoked:
        return "revoked"
    if key.expires_at is None:
        return "good"
    left = until(key.expires_at)
    return "expired" if left == "no time" else f"good for {left}"


def _of(tenant: str | None) -> dict[str, str] | None:
    return {"tenant": tenant} if tenant is not None else None


async def _named(link: GatewayLink, text: str, tenant: str | None) -> Key:
    found: dict[str, Any] = await link.read(LIST_KEYS.at(), dict[str, Any], _of(tenant))
    known = [msgspec.convert(one, Key) for one in found.get("keys", [])]
    return short_ids.pick(text, known, short_ids.KEY, lambda one: one.key_id, lambda one: one.created_at)
