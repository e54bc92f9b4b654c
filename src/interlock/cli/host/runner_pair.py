"""`interlock runner pair`: exchange a one-time code for a token, and store both where the runner reads them (L-3)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import httpx2
from cyclopts import Parameter

from interlock.cli.config.pairings import Paired, keep, pairings
from interlock.cli.config.place import state_directory, writable
from interlock.cli.display.terminal import result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link import trust
from interlock.cli.link.gateway_link import LOOPBACK, decoded
from interlock.cli.link.gateway_reply import refusal
from interlock.cli.link.gateway_url import checked_url
from interlock.cli.options import State
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.runners import PAIR_RUNNER
from interlock.protocol.resources import RunnerToken
from interlock.sdk.exchange import CONNECT_TIMEOUT_S

PAIR_PATH = PAIR_RUNNER.at()
ANSWER_TIMEOUT_S = 30.0


def pair(
    code: Annotated[str, Parameter(name="CODE", help="The code that `interlock runners code` showed.")],
    /,
    *,
    url: Annotated[str, Parameter(help="URL of the gateway, as reachable from this host.")],
    name: Annotated[str | None, Parameter(
        help="This host's name in lists, unless the code sets it (default: its host name).")] = None,
    ca: Annotated[Path | None, Parameter(help="PEM file of a CA to trust in addition to the system's.")] = None,
    state: State = None,
) -> int:
    """Pair this host's runner with a gateway; with another URL, with one more."""
    directory = writable(state_directory(state))
    address = checked_url(url)
    parts = urlsplit(address)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise usage(f"The code and the token would go to {parts.hostname} in the clear.", "Use an https URL.")
    context = trust.tls(address, directory, ca)
    traded = asyncio.run(_trade(address, context, {"code": code, "device_name": name or os.uname().nodename}))
    certificates = str(ca.expanduser().absolute()) if ca is not None else ""
    before = keep(directory, Paired(url=address, runner_id=traded.runner_id, ca=certificates), traded.token)
    result(traded.runner_id)
    if before is not None:
        say(f"this host was {before.paired.runner_id} before; revoke that one at its gateway", "bold",
            "revoke that one")
    others = [one.paired.url for one in pairings(directory) if one.paired.url != address]
    if others:
        say(f"it stays paired with {', '.join(others)}, and serves all of them; start it again", "dim")
    default = "" if state is None else f" --state {directory}"
    say(f"paired with {address}. Start it with: interlock runner{default}", "green", "paired")
    say(f"or have it started with the host: interlock runner install{default}", "dim")
    return ExitStatus.DONE


async def _trade(url: str, context: object, body: dict[str, str]) -> RunnerToken:
    """Send the code once: if the response is lost the code is used up, and another one is cheap."""
    local = urlsplit(url).hostname in LOOPBACK
    timeout = httpx2.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    async with httpx2.AsyncClient(timeout=timeout, trust_env=not local, verify=context or True) as http:  # pyright: ignore[reportArgumentType]
        try:
            answer = await http.post(url + PAIR_PATH, json=body)
        except httpx2.TransportError as error:
            raise Trouble("Unreachable", f"The gateway at {url} does not answer: {error or type(error).__name__}.",
                          "Check the URL; if the code was taken all the same, ask for another.") from None
    if answer.status_code >= 400:
        raise refusal(answer.status_code, answer.content, PAIR_PATH)
    return decoded(answer.content, RunnerToken, PAIR_PATH)
