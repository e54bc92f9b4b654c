"""`interlock runners`: what is paired, codes for more, another token, and the end of one (L-3, L-6)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.columns import Layout
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.pairings import PAIRED_TOKEN_FILE, pairings
from interlock.cli.place import NOWHERE, Here, Where, write_private
from interlock.cli.terminal import one_line, print_json, print_sentence, print_table, result, say
from interlock.cli.values import ago, until
from interlock.protocol.api.runners import LIST_RUNNERS, OFFER_PAIRING, REVOKE_RUNNER, ROTATE_RUNNER
from interlock.protocol.resources import PairingCode, Runner, RunnerToken

Json = Annotated[bool, Parameter(help="Print one JSON document.")]
COLUMNS = Layout(text=("HOST",), drop=("PAIRED", "LAST SEEN"))
Id = Annotated[str, Parameter(name="ID", help="The runner: its id, a unique beginning, or @last.")]


def runners(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the runners that are paired, or were."""
    return asyncio.run(_list(where, json=json))


def code(
    *,
    name: Annotated[str, Parameter(
        help="How the host is called in lists and by --runner (default: its own name).")] = "",
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Make a one-time code that pairs a runner; it is good for 10 minutes."""
    return asyncio.run(_code(name, where, json=json))


def rotate(id_: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Give a runner another token; the old one is refused at once."""
    return asyncio.run(_rotate(id_, where, json=json))


def revoke(id_: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Refuse a runner's token for ever, and close its link."""
    return asyncio.run(_revoke(id_, where, json=json))


async def _list(where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(LIST_RUNNERS.at())
    if json:
        print_json(raw)
        return ExitStatus.DONE
    found = decoded(raw, dict[str, list[Runner]], LIST_RUNNERS.at()).get("runners", [])
    if not found:
        say("no runner is paired; pair one with: interlock runners code", "dim")
        return ExitStatus.DONE
    found.sort(key=lambda one: (one.revoked, one.status == "offline"))
    print_table([[one.runner_id, one.device_name, "revoked" if one.revoked else one.status,
                  ago(one.last_seen), ago(one.created_at)] for one in found],
                ("RUNNER", "HOST", "STATUS", "LAST SEEN", "PAIRED"), COLUMNS)
    return ExitStatus.DONE


async def _code(name: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.send(OFFER_PAIRING.at(), {"device_name": name})
        url = link.address.url
    if json:
        print_json(raw)
        return ExitStatus.DONE
    made = decoded(raw, PairingCode, OFFER_PAIRING.at())
    result(made.code)
    say(f"good once, for {until(made.expires_at)}. On the host to pair: interlock runner pair {made.code} --url {url}")
    if link.is_local:
        say("give the URL as that host reaches this gateway", "dim")
    return ExitStatus.DONE


async def _rotate(id_: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        runner = await _named(link, id_)
        path = ROTATE_RUNNER.at(runner.runner_id)
        raw = await link.send(path, {})
    rotated = decoded(raw, RunnerToken, path)
    state = where.directory()
    here = next((one for one in pairings(state) if one.paired.runner_id == rotated.runner_id), None)
    if here is not None:
        write_private(here.token_file, rotated.token.encode() + b"\n")
        say(f"the new token is in {here.token_file}; start the runner again")
    else:
        say(f"put it into runner/{PAIRED_TOKEN_FILE} of the state directory on its host (with several "
            f"gateways: the one beside the runner.json that names {rotated.runner_id}), and start the runner again")
    if json:
        print_json(raw)
    else:
        result(rotated.token)
    return ExitStatus.DONE


async def _revoke(id_: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        runner = await _named(link, id_)
        raw = await link.send(REVOKE_RUNNER.at(runner.runner_id), {})
    if json:
        print_json(raw)
    else:
        print_sentence(f"{runner.runner_id} ({one_line(runner.device_name)}) is revoked")
    return ExitStatus.DONE


async def _named(link: GatewayLink, text: str) -> Runner:
    found: dict[str, Any] = await link.read(LIST_RUNNERS.at(), dict[str, Any])
    known = [msgspec.convert(one, Runner) for one in found.get("runners", [])]
    return short_ids.pick(text, known, short_ids.RUNNER, lambda one: one.runner_id, lambda one: one.created_at)
