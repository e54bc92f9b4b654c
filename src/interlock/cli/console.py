"""`interlock console`: a link that logs a browser in once, the sessions that are open, and their end (J-10)."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.columns import Layout
from interlock.cli.console_link import CODES, CONSOLE, link_for, qr_code
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import LOOPBACK, GatewayLink, decoded
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import is_terminal, one_line, print_json, print_sentence, print_table, result, say, write
from interlock.cli.values import ago, until
from interlock.cli.verb_error import Trouble
from interlock.protocol.access import GIVEN_ROLES, BrowserCode, BrowserSession
from interlock.protocol.api.access import END_BROWSER_SESSION, LIST_BROWSER_SESSIONS

SESSIONS = LIST_BROWSER_SESSIONS.at()
COLUMNS = Layout(text=("BROWSER", "FOR"), extra=("ROLES",), drop=("LAST USED", "TIME LEFT"))
BROWSER_SESSION = short_ids.IdKind("console session", SESSIONS, "brs_", "console sessions")
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")

Json = Annotated[bool, Parameter(help="Print one JSON document.")]
Id = Annotated[str, Parameter(name="ID", help="The browser session: its id, a unique beginning, or @last.")]


def console(
    *,
    no_open: Annotated[bool, Parameter(name="--no-open", help="Print the link; open no browser.")] = False,
    role: Annotated[list[str] | None, Parameter(name="--role", help="What the browser may do, at most what you may: "
                                                f"{', '.join(GIVEN_ROLES)}; may be repeated.")] = None,
    qr: Annotated[bool, Parameter(name="--qr", help="Draw the link for a phone, also one that leads to this machine "
                                  "alone.")] = False,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Open the console in a browser, logged in; the link is good once, for 5 minutes."""
    return asyncio.run(_open(role, where, opens=not no_open, qr=qr, json=json))


def sessions(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the browsers that are logged in."""
    return asyncio.run(_list(where, json=json))


def end(id_: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Log a browser out, at once."""
    return asyncio.run(_end(id_, where, json=json))


async def has_console(link: GatewayLink) -> bool:
    """Whether the gateway was installed with the console."""
    try:
        await link.get(CONSOLE)
    except Trouble as trouble:
        if trouble.status is not ExitStatus.NOT_FOUND:
            raise
        return False
    return True


async def _open(roles: list[str] | None, where: Where, *, opens: bool, qr: bool, json: bool) -> int:
    async with GatewayLink(where) as link:
        if not await has_console(link):
            raise Trouble("NotFound", f"The gateway at {link.address.url} was installed without the console.",
                          "Install Interlock with it: CONSOLE=1 pip install . in a checkout, with npm reachable.")
        raw = await link.send(CODES, {"roles": roles} if roles else {})
        url = link.address.url
    made = decoded(raw, BrowserCode, CODES)
    shown = link_for(url, made.code)
    if json:
        print_json(msgspec.json.encode({"url": shown, **msgspec.to_builtins(made)}))
        return ExitStatus.DONE
    result(shown)
    if is_terminal(sys.stderr) and (qr or urlsplit(url).hostname not in LOOPBACK):
        write(sys.stderr, qr_code(shown, sys.stderr.encoding), safe=True)
    opened = opens and has_display() and await asyncio.to_thread(webbrowser.open, shown)
    say(f"good once, for {until(made.expires_at)}, as {', '.join(made.roles)}" + (" · opened in a browser" if opened
        else ""), "dim")
    return ExitStatus.DONE


def has_display() -> bool:
    """Whether a browser can show itself: elsewhere one in text mode would take over the terminal."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in DISPLAYS)


async def _list(where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(SESSIONS)
    if json:
        print_json(raw)
        return ExitStatus.DONE
    found = decoded(raw, dict[str, list[BrowserSession]], SESSIONS)["items"]
    if not found:
        say("no browser is logged in; log one in with: interlock console", "dim")
        return ExitStatus.DONE
    print_table([[one.id, f"{one.principal.type}:{one.principal.id}", ", ".join(one.roles),
                  one.label, ago(one.last_used_at), until(one.expires_at)] for one in found],
                ("BROWSER SESSION", "FOR", "ROLES", "BROWSER", "LAST USED", "TIME LEFT"), COLUMNS)
    return ExitStatus.DONE


async def _end(id_: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        known = (await link.read(SESSIONS, dict[str, list[BrowserSession]]))["items"]
        found = short_ids.pick(id_, known, BROWSER_SESSION, lambda one: one.id, lambda one: one.created_at)
        raw = await link.send(END_BROWSER_SESSION.at(found.id), {}, method="DELETE")
    if json:
        print_json(raw)
    else:
        print_sentence(f"{found.id} ({one_line(found.label, 60)}) is logged out")
    return ExitStatus.DONE
