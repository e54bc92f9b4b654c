"""`interlock trust`: list the workspace files that people let configure an agent, and revoke such an approval
(H-13)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout, cut_middle
from interlock.cli.display.terminal import one_line, print_sentence
from interlock.cli.display.values import ago
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.options import Json
from interlock.cli.policy.policy_verbs import RULE, state_of
from interlock.cli.verb_answer import ListTable, VerbAnswer, answered, print_value
from interlock.cli.verb_error import Trouble
from interlock.protocol.answers import RuleList
from interlock.protocol.api.policy import LIST_REMEMBERED_RULES
from interlock.protocol.resources import RememberedRule
from interlock.sdk.requests.base import read
from interlock.sdk.requests.policy import revoke_rule

TRUSTED = RULE._replace(noun="trusted workspace", verb="trust")
DIGEST_CHARS = 16
DOOR = "workspace"
WORKSPACES = ListTable[RuleList](
    header=("RULE", "STATE", "AGENT", "RUNNER", "DIRECTORY", "SHA256", "BY", "CREATED"),
    rows=lambda answer: [[one.id, state_of(one), *(str(one.rule.get(name)) for name in ("agent", "runner", DOOR)),
                          str(one.rule.get("digest"))[:DIGEST_CHARS] + "…", one.created_by, ago(one.created_at)]
                         for one in answer.rules],
    layout=Layout(text=("DIRECTORY",), extra=("SHA256", "CREATED", "BY"), drop=("RUNNER", "AGENT"), shorten=cut_middle),
    empty="no workspace is trusted; files that would configure an agent are asked about before it starts")


def trusted(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the workspaces whose files may configure an agent."""
    return print_value(ask_gateway(where, _listed), WORKSPACES.show, json=json)


def forget(
    what: Annotated[str, Parameter(name="ID", help="The rule's id, a unique beginning, @last, or a directory.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Revoke a yes, or every yes for a directory: the agent's next start there is asked about again."""
    async def revoke(link: GatewayLink) -> list[VerbAnswer[RememberedRule]]:
        found = [one for one in (await _listed(link)).rules if one.revoked_at is None]
        chosen = [one for one in found if one.rule.get(DOOR) == what.rstrip("/")]
        if what.startswith("/") and not chosen:
            raise Trouble("NotFound", f"No yes holds for the directory {what}.", "See: interlock trust")
        chosen = chosen or [short_ids.pick(what, found, TRUSTED, lambda one: one.id, lambda one: one.created_at)]
        return [await answered(link, revoke_rule(one.id)) for one in chosen]

    for answer in ask_gateway(where, revoke):
        answer.print(lambda one: print_sentence(
            f"{one.id} is revoked; the next start of {one_line(str(one.rule.get('agent')))} in "
            f"{one_line(str(one.rule.get(DOOR)))} is asked about again"), json=json)
    return ExitStatus.DONE


async def _listed(link: GatewayLink) -> RuleList:
    found = await link.ask(read(LIST_REMEMBERED_RULES))
    return RuleList([one for one in found.rules if one.rule.get("door") == DOOR])
