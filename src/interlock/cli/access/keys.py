"""`interlock keys` and `interlock whoami`: who may call the gateway, and as which principal (K-1)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import one_line, print_sentence, result, say
from interlock.cli.display.values import ago, milliseconds, until
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.options import Json
from interlock.cli.verb_answer import ListTable, VerbAnswer, answered, print_answer
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.access import GIVEN_ROLES, Key, MadeKey, Whoami
from interlock.protocol.answers import KeyList
from interlock.protocol.api.access import WHOAMI
from interlock.protocol.resources import Actor
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import access
from interlock.sdk.requests.base import read

KEYS = ListTable[KeyList](
    header=("KEY", "FOR", "ROLES", "LABEL", "STATE", "LAST USED", "CREATED"),
    rows=lambda answer: [[one.key_id, f"{one.principal.type}:{one.principal.id}", ", ".join(one.roles), one.label,
                          _state(one), ago(one.last_used_at) if one.last_used_at else "never", _made(one)]
                         for one in sorted(answer.keys, key=lambda one: one.revoked)],
    layout=Layout(text=("FOR", "LABEL"), extra=("CREATED", "LAST USED"), drop=("LABEL", "ROLES")),
    empty="there is no key; make one with: interlock keys create WHO --role operator")
Id = Annotated[str, Parameter(name="ID", help="The key: its id, a unique beginning, or @last.")]
Tenant = Annotated[str | None, Parameter(name="--tenant", help="Another tenant; for an owner only.")]


def keys(*, tenant: Tenant = None, json: Json = False, where: Here = NOWHERE) -> int:
    """List the keys of a tenant."""
    return print_answer(where, access.keys(tenant=tenant), KEYS.show, json=json)


def create(
    person: Annotated[str, Parameter(name="WHO", help="The person, or with --agent the program, that it identifies.")],
    /,
    *,
    role: Annotated[list[str] | None, Parameter(name="--role", help=f"A role of the key: {', '.join(GIVEN_ROLES)}; "
                                                "may be repeated.")] = None,
    label: Annotated[str, Parameter(help="A note for the list, such as the machine or the purpose.")] = "",
    expires: Annotated[str | None, Parameter(help="How long the key is valid: 12h, 90d (default: until it is "
                                                  "revoked).")]
    = None,
    agent: Annotated[bool, Parameter(help="The key is for a program, not for a person.")] = False,
    driver: Annotated[str | None, Parameter(help="With --agent: the person who drives it; its votes count as "
                                                 "theirs (default: you).")] = None,
    tenant: Tenant = None,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Create an API key, and show it once."""
    if not role:
        raise usage("A key needs a role.", f"Give one with --role: {', '.join(GIVEN_ROLES)}.")
    if driver is not None and not agent:
        raise usage("--driver names the person who drives a program.", "Add --agent, or leave --driver out.")
    ttl_ms = milliseconds(expires, "--expires") if expires is not None else None
    request = access.make_key(Actor(type="agent" if agent else "user", id=person), role, label=label, ttl_ms=ttl_ms,
                              tenant_id=tenant, driver=driver)
    return print_answer(where, request, _show_once, json=json)


def rotate(id_: Id, /, *, tenant: Tenant = None, json: Json = False, where: Here = NOWHERE) -> int:
    """Replace a key's secret; the old one is refused at once."""
    async def request(link: GatewayLink) -> VerbAnswer[MadeKey]:
        key_id = await _id_of(link, id_, tenant)
        try:
            return await answered(link, access.rotate_key(key_id))
        except Trouble as error:
            # This key listed the keys a moment ago, so the first attempt has replaced it and its response was lost.
            raise _lost_own_key(key_id) if error.code == "Unauthorized" else error from None

    return ask_gateway(where, request).print(_show_once, json=json)


def revoke(id_: Id, /, *, tenant: Tenant = None, json: Json = False, where: Here = NOWHERE) -> int:
    """Refuse a key for ever."""
    async def request(link: GatewayLink) -> RequestSpec[Key]:
        return access.revoke_key(await _id_of(link, id_, tenant))

    return print_answer(where, request, lambda revoked: print_sentence(
        f"{revoked.key_id} ({one_line(revoked.principal.id)}) is revoked"), json=json)


def whoami(*, json: Json = False, where: Here = NOWHERE) -> int:
    """Print this key's actor, and what it allows."""
    def show(answer: Whoami) -> None:
        print_sentence(f"{answer.principal.type}:{one_line(answer.principal.id)} · tenant {answer.tenant_id} · "
                       f"{', '.join(answer.roles)} · {answer.key_id}")

    return print_answer(where, read(WHOAMI), show, json=json)


def _made(key: Key) -> str:
    return ago(key.created_at) + (f" by {key.created_by}" if key.created_by is not None else "")


def _show_once(made: MadeKey) -> None:
    result(made.key)
    good = f"good for {until(made.expires_at)}" if made.expires_at else "good until it is revoked"
    say(f"{made.key_id}, {good}; it is shown this once. To use it, set $INTERLOCK_KEY")


def _lost_own_key(key_id: str) -> Trouble:
    return Trouble("Unauthorized", f"This key is refused since the request to rotate {key_id}: it was rotated, and the "
                   "response with the new key was lost.", f"An admin's or the owner's key replaces it again: interlock "
                   f"keys rotate {key_id}")


def _state(key: Key) -> str:
    if key.revoked:
        return "revoked"
    if key.expires_at is None:
        return "good"
    left = until(key.expires_at)
    return "expired" if left == "no time" else f"good for {left}"


async def _id_of(link: GatewayLink, text: str, tenant: str | None) -> str:
    known = (await link.ask(access.keys(tenant=tenant))).keys
    return short_ids.pick(text, known, short_ids.KEY, lambda one: one.key_id, lambda one: one.created_at).key_id
