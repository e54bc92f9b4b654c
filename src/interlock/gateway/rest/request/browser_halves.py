"""The two halves of a browser session in a request, and the cookie in a response (J-15)."""

from __future__ import annotations

import re

from interlock.gateway.access.browsers import token_of
from interlock.gateway.access.credentials import digest
from interlock.gateway.rest.request.request_guard import HeaderValues
from interlock.protocol.problems import Problem

BROWSER_HEADER = b"interlock-browser"
COOKIE = "interlock_browser_"
_HALF = re.compile(r"[A-Za-z0-9_-]{1,128}")
_HEADER = re.compile(r"[A-Z0-9]{26}\.[A-Za-z0-9_-]{1,128}")


def cookie_name(gateway_id: str) -> str:
    """Return the name of a gateway's cookie: others on the same host, whatever their port, set cookies beside it."""
    return COOKIE + digest(gateway_id)[:8]


def cookie_of(headers: HeaderValues, name: str) -> str:
    """Return the only cookie of this name; "" if there is none, or several: then another page has set one."""
    pairs = [pair.strip().partition("=") for line in headers.get(b"cookie", ()) for pair in line.split(";")]
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 and _HALF.fullmatch(found[0]) else ""


def browser_token(headers: HeaderValues, name: str) -> str:
    """Join header and cookie into a credential. Raises Problem Unauthorized if either is missing."""
    halves = headers.get(BROWSER_HEADER, ())
    if b"authorization" in headers:
        raise Problem("Unauthorized", "A request carries a bearer key or a browser session, not both.")
    check_same_origin(headers, required=True)
    cookie = cookie_of(headers, name)
    if len(halves) != 1 or _HEADER.fullmatch(halves[0]) is None or not cookie:
        raise Problem("Unauthorized", "A browser session is its cookie and its header together; one of them is "
                      "missing.", hint="Log in again: `interlock console` prints a link.")
    return token_of(halves[0], cookie)


def check_same_origin(headers: HeaderValues, *, required: bool) -> None:
    """Refuse a browser's request for another page than the console. Raises Problem Unauthorized, as for an unknown
    session."""
    sites = headers.get(b"sec-fetch-site", ())
    if any(site != "same-origin" for site in sites) or (required and len(sites) != 1):
        raise Problem("Unauthorized", "A browser session is used by pages of this gateway alone, and their browser "
                      "says so in Sec-Fetch-Site.", hint="Use a browser of this decade, at the gateway's own address.")


def set_cookie(headers: HeaderValues, name: str, value: str) -> str:
    """Return `Set-Cookie`; an empty value ends the cookie. It is restricted to HTTPS if the page was loaded over
    that."""
    origin = headers.get(b"origin", ("",))[0].lower()
    secure = "; Secure" if origin.startswith("https://") else ""
    end = "" if value else "; Max-Age=0"
    return f"{name}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{end}"
