"""`interlock console`: create a link that logs a browser in once; list and end browser sessions (J-10)."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.access.console_link import CONSOLE, link_for, qr_code
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import is_terminal, one_line, print_json, print_sentence, result, say, write
from interlock.cli.display.values import ago, until
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import LOOPBACK, GatewayLink
from interlock.cli.options import Json
from interlock.cli.verb_answer import ListTable, ask, print_answer
from interlock.cli.verb_error import Trouble
from interlock.protocol.access import GIVEN_ROLES, BrowserCode, BrowserSession
from interlock.protocol.answers import BrowserSessionList
from interlock.protocol.api.access import LIST_BROWSER_SESSIONS
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.access import end_browser_session, make_browser_code
from interlock.sdk.requests.base import read

BROWSER_SESSION = short_ids.IdKind("console session", LIST_BROWSER_SESSIONS.at(), "brs_", "console sessions")
BROWSERS = ListTable[BrowserSessionList](
    header=("BROWSER SESSION", "FOR", "ROLES", "BROWSER", "LAST USED", "TIME LEFT"),
    rows=lambda answer: [[one.id, f"{one.principal.type}:{one.principal.id}", ", ".join(one.roles), one.label,
                          ago(one.last_used_at), until(one.expires_at)] for one in answer.items],
    layout=Layout(text=("BROWSER", "FOR"), extra=("ROLES",), drop=("LAST USED", "TIME LEFT")),
    empty="no browser is logged in; log one in with: interlock console")
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")

Id = Annotated[str, Parameter(name="ID", help="The browser session: its id, a unique beginning, or @last.")]


def console(
    *,
    no_open: Annotated[bool, Parameter(name="--no-open", help="Print the link; open no browser.")] = False,
    role: Annotated[list[str] | None, Parameter(name="--role", help="A role of the browser session, at most your own: "
                                                f"{', '.join(GIVEN_ROLES)}; may be repeated.")] = None,
    qr: Annotated[bool, Parameter(name="--qr", help="Draw a QR code of the link, also if only this machine "
                                                    "can open it.")] = False,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Open the console in a browser, logged in; the link is good once, for 5 minutes."""
    async def request(link: GatewayLink) -> RequestSpec[BrowserCode]:
        if not await has_console(link):
            raise Trouble("NotFound", f"The gateway at {link.address.url} was installed without the console.",
                          "Install Interlock with it: CONSOLE=1 pip install . in a checkout, with npm reachable.")
        return make_browser_code(roles=role or None)

    answer = ask(where, request)
    made, url = answer.value(), answer.link.address.url
    shown = link_for(url, made.code)
    if json:
        print_json(msgspec.json.encode({"url": shown, **msgspec.to_builtins(made)}))
        return ExitStatus.DONE
    result(shown)
    if is_terminal(sys.stderr) and (qr or urlsplit(url).hostname not in LOOPBACK):
        write(sys.stderr, qr_code(shown, sys.stderr.encoding), safe=True)
    opened = not no_open and has_display() and webbrowser.open(shown)
    say(f"good once, for {until(made.expires_at)}, as {', '.join(made.roles)}" + (" · opened in a browser" if opened
        else ""), "dim")
    return ExitStatus.DONE


def sessions(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List open browser sessions."""
    return print_answer(where, read(LIST_BROWSER_SESSIONS), BROWSERS.show, json=json)


def end(id_: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """End a browser session at once."""
    async def request(link: GatewayLink) -> RequestSpec[BrowserSession]:
        known = (await link.ask(read(LIST_BROWSER_SESSIONS))).items
        return end_browser_session(
            short_ids.pick(id_, known, BROWSER_SESSION, lambda one: one.id, lambda one: one.created_at).id)

    return print_answer(where, request, lambda ended: print_sentence(
        f"{ended.id} ({one_line(ended.label, 60)}) is logged out"), json=json)


async def has_console(link: GatewayLink) -> bool:
    """Return whether the gateway was installed with the console."""
    try:
        await link.get(CONSOLE)
    except Trouble as trouble:
        if trouble.status is not ExitStatus.NOT_FOUND:
            raise
        return False
    return True


def has_display() -> bool:
    """Return whether a browser can open a window: without a display, one in text mode would take over the terminal."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in DISPLAYS)
