"""`interlock trust`: the workspace files that people let configure an agent, and how such a yes is revoked (H-13)."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.columns import Layout, cut_middle
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.options import Json
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.policy_verbs import RULE, state_of
from interlock.cli.terminal import one_line, print_json, print_sentence, print_table, say
from interlock.cli.values import ago
from interlock.cli.verb_error import Trouble
from interlock.protocol.api.policy import REVOKE_REMEMBERED_RULE
from interlock.protocol.resources import RememberedRule

TRUSTED = RULE._replace(noun="trusted workspace", verb="trust")
COLUMNS = Layout(text=("DIRECTORY",), extra=("SHA256", "SAID", "BY"), drop=("RUNNER", "AGENT"), shorten=cut_middle)
DIGEST_CHARS = 16
DOOR = "workspace"


def trusted(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the workspaces whose files may configure an agent."""
    return asyncio.run(listed(where, json=json))


def forget(
    what: Annotated[str, Parameter(name="ID", help="The rule's id, a unique beginning, @last, or a directory.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Revoke a yes, or every yes for a directory: the agent's next start there is asked about again."""
    return asyncio.run(forgotten(what, where, json=json))


async def listed(where: Where, *, json: bool) -> int:
    """The same as `trusted`, awaited."""
    async with GatewayLink(where) as link:
        found = await _rules(link)
    if json:
        print_json(msgspec.json.encode({"rules": found}))
        return ExitStatus.DONE
    if not found:
        say("no workspace is trusted; files that would configure an agent are asked about before it starts", "dim")
        return ExitStatus.DONE
    print_table([[one.id, state_of(one), *(str(one.rule.get(name)) for name in ("agent", "runner", DOOR)),
                  str(one.rule.get("digest"))[:DIGEST_CHARS] + "…", one.created_by, ago(one.created_at)]
                 for one in found], ("RULE", "STATE", "AGENT", "RUNNER", "DIRECTORY", "SHA256", "BY", "SAID"),
                COLUMNS)
    return ExitStatus.DONE


async def forgotten(what: str, where: Where, *, json: bool) -> int:
    """The same as `forget`, awaited. Raises Trouble."""
    async with GatewayLink(where) as link:
        found = [one for one in await _rules(link) if one.revoked_at is None]
        chosen = [one for one in found if one.rule.get(DOOR) == what.rstrip("/")]
        if what.startswith("/") and not chosen:
            raise Trouble("NotFound", f"No yes holds for the directory {what}.", "See: interlock trust")
        chosen = chosen or [short_ids.pick(what, found, TRUSTED, lambda one: one.id, lambda one: one.created_at)]
        raws = [await link.send(REVOKE_REMEMBERED_RULE.at(one.id), {}) for one in chosen]
    for one, raw in zip(chosen, raws, strict=True):
        if json:
            print_json(raw)
        else:
            print_sentence(f"{one.id} is revoked; the next start of {one_line(str(one.rule.get('agent')))} in "
                           f"{one_line(str(one.rule.get(DOOR)))} is asked about again")
    return ExitStatus.DONE


async def _rules(link: GatewayLink) -> list[RememberedRule]:
    raw = await link.get(RULE.path)
    found = decoded(raw, dict[str, list[RememberedRule]], RULE.path).get("rules", [])
    return [one for one in found if one.rule.get("door") == DOOR]
