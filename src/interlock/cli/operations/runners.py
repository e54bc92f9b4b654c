"""`interlock runners`: list paired runners, create pairing codes, replace a token, or revoke it (L-3, L-6)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.pairings import PAIRED_TOKEN_FILE, pairings
from interlock.cli.config.place import NOWHERE, Here, write_private
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import one_line, print_sentence, result, say
from interlock.cli.display.values import ago, until
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.options import Json
from interlock.cli.verb_answer import ListTable, ask, print_answer
from interlock.protocol.answers import RunnerList
from interlock.protocol.api.runners import LIST_RUNNERS
from interlock.protocol.resources import PairingCode, Runner, RunnerToken
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.base import read
from interlock.sdk.requests.runners import offer_pairing, revoke_runner, rotate_runner

RUNNERS = ListTable[RunnerList](
    header=("RUNNER", "HOST", "STATUS", "LAST SEEN", "PAIRED"),
    rows=lambda answer: [[one.runner_id, one.device_name, "revoked" if one.revoked else one.status,
                          ago(one.last_seen), ago(one.created_at)]
                         for one in sorted(answer.runners, key=lambda one: (one.revoked, one.status == "offline"))],
    layout=Layout(text=("HOST",), drop=("PAIRED", "LAST SEEN")),
    empty="no runner is paired; pair one with: interlock runners code")
Id = Annotated[str, Parameter(name="ID", help="The runner: its id, a unique beginning, or @last.")]


def runners(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List all runners that were ever paired."""
    return print_answer(where, read(LIST_RUNNERS), RUNNERS.show, json=json)


def code(
    *,
    name: Annotated[str, Parameter(
        help="The host's name in lists and for --runner (default: its host name).")] = "",
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Make a one-time code that pairs a runner; it is good for 10 minutes."""
    answer = ask(where, offer_pairing(device_name=name))

    def show(made: PairingCode) -> None:
        result(made.code)
        say(f"good once, for {until(made.expires_at)}. On the host to pair: interlock runner pair {made.code} "
            f"--url {answer.link.address.url}")
        if answer.link.is_local:
            say("give the URL as that host reaches this gateway", "dim")

    return answer.print(show, json=json)


def rotate(id_: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Replace a runner's token; the old one is refused at once."""
    async def request(link: GatewayLink) -> RequestSpec[RunnerToken]:
        return rotate_runner(await _id_of(link, id_))

    answer = ask(where, request)
    rotated = answer.value()
    here = next((one for one in pairings(where.directory()) if one.paired.runner_id == rotated.runner_id), None)
    if here is not None:
        write_private(here.token_file, rotated.token.encode() + b"\n")
        say(f"the new token is in {here.token_file}; start the runner again")
    else:
        say(f"put it into runner/{PAIRED_TOKEN_FILE} of the state directory on its host (with several "
            f"gateways: the one beside the runner.json that names {rotated.runner_id}), and start the runner again")
    return answer.print(lambda rotated: result(rotated.token), json=json)


def revoke(id_: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Refuse a runner's token for ever, and close its link."""
    async def request(link: GatewayLink) -> RequestSpec[Runner]:
        return revoke_runner(await _id_of(link, id_))

    return print_answer(where, request, lambda revoked: print_sentence(
        f"{revoked.runner_id} ({one_line(revoked.device_name)}) is revoked"), json=json)


async def _id_of(link: GatewayLink, text: str) -> str:
    known = (await link.ask(read(LIST_RUNNERS))).runners
    found = short_ids.pick(text, known, short_ids.RUNNER, lambda one: one.runner_id, lambda one: one.created_at)
    return found.runner_id
