"""`interlock login` and `interlock logout`: at the gateway's issuer, with a one-time code, or a key (Y-11)."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from cyclopts import Parameter

from interlock.cli.access.console import has_display
from interlock.cli.config.place import OnHost, Where, state_directory, writable
from interlock.cli.display.progress import suspended
from interlock.cli.display.terminal import is_terminal, one_line, print_sentence, result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link import contexts, trust
from interlock.cli.link.contexts import Context, LoginRenewal
from interlock.cli.link.device_grant import DeviceCode, IssuedTokens, IssuerClient, ends_ms
from interlock.cli.link.gateway_link import GatewayLink, decoded
from interlock.cli.link.gateway_reply import refusal
from interlock.cli.link.gateway_url import checked_url
from interlock.cli.link.renewal import renewed_from
from interlock.cli.options import State
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.access import LoginIssuer, OpenedBrowserSession, Whoami
from interlock.protocol.answers import LoginIssuerList
from interlock.protocol.api.access import END_BROWSER_SESSION, LIST_BROWSER_SESSIONS, LIST_LOGIN_ISSUERS, WHOAMI
from interlock.protocol.clock import parse_iso
from interlock.sdk.credential import LOGIN_PREFIX, credential_headers, login_credential
from interlock.sdk.exchange import CONNECT_TIMEOUT_S
from interlock.sdk.place import LOOPBACK

ISSUERS = LIST_LOGIN_ISSUERS.at()
SESSIONS = LIST_BROWSER_SESSIONS.at()
ANSWER_TIMEOUT_S = 30.0
_NUMBER = re.compile(r"^\[Errno -?\d+\] ")
"""The prefix that Python writes before the text of a system error."""
MAX_KEY_CHARS = 4_096
"""Maximum length of a key that is piped in."""
CONSOLE_LINK = "/console/#"
"""What separates URL and code in a link of `interlock console`."""
COOKIE = "interlock_browser_"



def login(
    url: Annotated[str | None, Parameter(name="URL", help="URL of the gateway, or a link with a code "
                                                          "(default: the context's URL).")] = None,
    /,
    *,
    on: Annotated[str | None, Parameter(name=("--on", "--context"), help="The name of this context (default: "
                                                                         "the gateway's host).")] = None,
    code: Annotated[str | None, Parameter(help="Log in with a one-time code of `interlock console "
                                               "--no-open`; its link may also be passed as the URL.")] = None,
    key: Annotated[bool, Parameter(help="Log in with an API key, prompted for or read from standard input.")] = False,
    issuer: Annotated[str | None, Parameter(help="One of the gateway's issuers, by its name in the config there.")]
    = None,
    directory: Annotated[str | None, Parameter(help="The default workspace for tasks there, on the runner's "
                                                    "host.")] = None,
    ca: Annotated[Path | None, Parameter(help="PEM file of a CA to trust in addition to the system's.")] = None,
    no_open: Annotated[bool, Parameter(name="--no-open", help="Print the link; open no browser.")] = False,
    state: State = None,
) -> int:
    """Log in to a gateway, and use it from now on."""
    if url is not None and CONSOLE_LINK in url:
        url, _, linked = url.partition(CONSOLE_LINK)
        code = code or linked
    if code is not None and key:
        raise usage("--code and --key exclude each other.", "Give one of them.")
    if issuer is not None and (code is not None or key):
        raise usage("--issuer names where to log in, and --code and --key log in without one.", "Give one of them.")
    place = writable(state_directory(state))
    before = _before(url, on, place)
    address = checked_url(url) if url is not None else before.url if before is not None else ""
    if not address:
        raise usage("No gateway to log in to is named.", "Write: interlock login https://gate.example.org")
    name = contexts.checked_name(on or (before.name if before is not None else contexts.name_for(address)))
    if directory is not None and not directory.startswith("/"):
        raise usage(f"The directory {directory!r} is not absolute.", "Write it as it is on the runner's host.")
    ca_file = ca or (Path(before.ca) if before is not None and before.ca else None)
    there = _Gateway(address, place, ca_file)
    means = _Login(there, place, opens=not no_open)
    made = (means.with_code(name, code) if code is not None else means.with_key(name) if key
            else means.at_issuer(name, issuer))
    made = msgspec.structs.replace(
        made, ca=str(ca_file.expanduser().absolute()) if ca_file is not None else "",
        directory=directory if directory is not None else before.directory if before is not None else "")
    with contexts.changing(place):
        contexts.write(place, contexts.read(place).with_(made).using(name))
    who = there.whoami(made.credential)
    result(name)
    say(f"logged in to {address} as {one_line(who.principal.id)} ({', '.join(who.roles)}); verbs go there from now on",
        "green", "logged in")
    say("back to the gateway of this machine: interlock contexts use local", "dim")
    return ExitStatus.DONE


def logout(
    name: Annotated[str | None, Parameter(name="NAME", help="The context (default: the one in use).")] = None,
    /,
    *,
    state: State = None,
) -> int:
    """Log out of a gateway: its credential is forgotten here, and ended where it can be."""
    place = OnHost(state).directory()
    known = contexts.read(place)
    wanted = name or os.environ.get(contexts.VARIABLE) or known.current
    if wanted == contexts.LOCAL:
        raise usage("You are logged in to no gateway: the one of this machine needs no login.",
                    "List the others with: interlock contexts")
    context = known.named(wanted)
    if not context.credential:
        say(f"you are logged out of {context.name} already", "dim")
        return ExitStatus.DONE
    outcome = _ended(context, place)
    with contexts.changing(place):
        found = contexts.read(place)
        if (now := found.find(context.name)) is not None:
            bare = msgspec.structs.replace(now, credential="", ends_ms=None, renew_ms=None, renewal=None)
            contexts.write(place, found.with_(bare))
    print_sentence(f"logged out of {context.name}")
    say(outcome, "dim")
    return ExitStatus.DONE


class _Gateway:
    """The requests that a login sends to its gateway."""

    def __init__(self, url: str, state: Path, ca: Path | None) -> None:
        host = urlsplit(url).hostname
        if urlsplit(url).scheme == "http" and host not in LOOPBACK:
            raise usage(f"The credential would go to {host} in the clear.", "Use an https URL, or a tunnel: see "
                        "docs/how-to/remote.md.")
        self.url = url
        self.ca = ca
        self.tls = trust.tls(url, state, ca)
        self._local = host in LOOPBACK

    def issuers(self) -> list[LoginIssuer]:
        """List the issuers that a login can use. Raises Trouble."""
        try:
            answer = self._ask("GET", ISSUERS)
        except Trouble as trouble:
            if trouble.status is not ExitStatus.NOT_FOUND and trouble.code != "Unauthorized":
                raise
            return []  # A gateway of an earlier version does not have this page.
        return decoded(answer.content, LoginIssuerList, ISSUERS).items

    def open_session(self, code: str) -> tuple[OpenedBrowserSession, str, str]:
        """Exchange a one-time code for a browser session; returns the session, and its cookie by name and value. Raises
        Trouble."""
        answer = self._ask("POST", SESSIONS, {"code": code})
        found = [(name, value) for name, value in answer.cookies.items() if name.startswith(COOKIE)]
        if len(found) != 1:
            raise Trouble("UpstreamError", f"The answer to {SESSIONS} has no cookie.", "Check the URL of the gateway.")
        return decoded(answer.content, OpenedBrowserSession, SESSIONS), *found[0]

    def whoami(self, credential: str) -> Whoami:
        """Read a credential's actor. Raises Trouble."""
        return decoded(self._ask("GET", WHOAMI.at(), credential=credential).content, Whoami,
                       WHOAMI.at())

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None, credential: str | None = None
             ) -> httpx2.Response:
        timeout = httpx2.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        headers = {"User-Agent": f"interlock login on {os.uname().nodename}",
                   **(credential_headers(credential) if credential is not None else {})}
        try:
            with httpx2.Client(timeout=timeout, trust_env=not self._local,
                               verify=self.tls if self.tls is not None else True) as http:
                answer = http.request(method, self.url + path, json=body, headers=headers)
        except httpx2.TransportError as error:
            why = _NUMBER.sub("", str(error)) or type(error).__name__
            raise Trouble("Unreachable", f"The gateway at {self.url} does not answer: {why}.",
                          trust.remedy(str(error)) or "Check the URL.") from None
        if answer.status_code >= 400:
            raise refusal(answer.status_code, answer.content, path, answer.headers.get("Retry-After"))
        return answer


class _Login:
    """One login by one of three means; each returns a context with its credential, or raises Trouble."""

    def __init__(self, gateway: _Gateway, state: Path, *, opens: bool) -> None:
        self._gateway = gateway
        self._state = state
        self._opens = opens

    def with_code(self, name: str, code: str) -> Context:
        """Log in with a one-time code."""
        opened, cookie_name, cookie = self._gateway.open_session(code)
        return Context(name, self._gateway.url, "code", login_credential(opened.half, cookie_name, cookie),
                       ends_ms=(end := parse_iso(opened.expires_at)), renew_ms=end)

    def with_key(self, name: str) -> Context:
        """Store an API key, if the gateway accepts it."""
        key = _asked_key()
        if not key.isascii() or not key.isprintable() or " " in key or key.startswith(LOGIN_PREFIX):
            raise usage("The key has characters that no key has.", "It begins with ilk_, and is one line.")
        self._gateway.whoami(key)
        return Context(name, self._gateway.url, "key", key)

    def at_issuer(self, name: str, wanted: str | None) -> Context:
        """Log in at an issuer with the device grant, and store the first of its tokens that the gateway accepts."""
        chosen = self._chosen(wanted)
        client = IssuerClient(chosen.issuer, trust.tls(chosen.issuer, self._state, self._gateway.ca), time.sleep,
                              time.monotonic)
        try:
            found = client.discover()
            code = client.begin(found.device_authorization_endpoint, chosen.client_id, chosen.scopes)
            self._show(code)
            tokens = client.wait(found.token_endpoint, chosen.client_id, code)
        finally:
            client.close()
        return self._kept(name, chosen, found.token_endpoint, tokens)

    def _kept(self, name: str, chosen: LoginIssuer, token_endpoint: str, tokens: IssuedTokens) -> Context:
        refused: Trouble | None = None
        for form, token in tokens.candidates():
            try:
                self._gateway.whoami(token)
            except Trouble as trouble:
                if trouble.code != "Unauthorized":
                    raise
                refused = trouble
                continue
            renewal = LoginRenewal(token_endpoint, chosen.client_id, tokens.refresh_token, form) \
                if tokens.refresh_token else None
            if renewal is None:
                say("the issuer gave no refresh token: this login ends with its token", "bold", "no refresh token")
            end = ends_ms(token)
            return Context(name, self._gateway.url, "issuer", token, end, renewed_from(end), renewal, chosen.issuer)
        if refused is None:
            raise Trouble("UpstreamError", f"The issuer {chosen.issuer} gave no token that a gateway can check.",
                          "Ask for `openid` in `login_scopes`, or have its access tokens be JWTs.")
        raise Trouble("Unauthorized", "The issuer let you in, and the gateway does not accept its token.",
                      "The gateway's log says which check failed: look there for `token_refused`.")

    def _chosen(self, wanted: str | None) -> LoginIssuer:
        offered = self._gateway.issuers()
        names = ", ".join(one_line(one.name) for one in offered)
        if not offered:
            raise Trouble("UnsupportedCapability", f"The gateway at {self._gateway.url} has no issuer to log in at.",
                          "Log in with --code or --key, or set `login_client` under [oidc.NAME] in its config.")
        if wanted is None and len(offered) > 1:
            raise usage(f"The gateway has several issuers: {names}.", "Name one with --issuer.")
        found = next((one for one in offered if wanted in (None, one.name)), None)
        if found is None:
            raise Trouble("NotFound", f"The gateway has no issuer {wanted!r} to log in at.", f"It has: {names}.")
        return found

    def _show(self, code: DeviceCode) -> None:
        say(f"open {one_line(code.verification_uri)} and enter the code {one_line(code.user_code)}", "bold",
            one_line(code.user_code))
        link = code.verification_uri_complete
        if self._opens and urlsplit(link).scheme in ("http", "https") and has_display():
            webbrowser.open(link)
        say("waiting for you to confirm …", "dim")


def _before(url: str | None, on: str | None, state: Path) -> Context | None:
    """Return the context whose login is repeated, if there is one. Raises Trouble."""
    known = contexts.read(state)
    if on is not None:
        return known.find(on) if url is not None else known.named(on)
    if url is None:
        name = os.environ.get(contexts.VARIABLE) or known.current
        return None if name == contexts.LOCAL else known.named(name)
    return known.find(contexts.name_for(checked_url(url)))


def _asked_key() -> str:
    """Prompt for a key without echo, or read it from a pipe: on a command line others would see it. Raises Trouble."""
    with suspended():
        text = getpass.getpass("key: ") if is_terminal(sys.stdin) else sys.stdin.read(MAX_KEY_CHARS)
    if not text.strip():
        raise usage("No key was entered.", "Type it, or pipe it in: interlock login URL --key < key.txt")
    return text.strip()


def _ended(context: Context, state: Path) -> str:
    """End a credential at the gateway or issuer that created it, if possible; returns the outcome."""
    try:
        if context.means == "code":
            asyncio.run(_end_session(Where(state=state, on=context.name)))
            return "the login is ended at the gateway, too"
        if context.renewal is not None:
            return _revoked(context, context.renewal, state)
    except Trouble as trouble:
        return f"it could not be ended elsewhere: {trouble.sentence}"
    if context.means == "key":
        return "the key itself stays good: end it with `interlock keys revoke`"
    return "the token itself stays good until it ends: an issuer's token cannot be revoked"


async def _end_session(where: Where) -> None:
    async with GatewayLink(where) as link:
        await link.send(END_BROWSER_SESSION.at("me"), {}, method="DELETE")


def _revoked(context: Context, renewal: LoginRenewal, state: Path) -> str:
    ca = Path(context.ca) if context.ca else None
    client = IssuerClient(context.issuer, trust.tls(context.issuer, state, ca), time.sleep, time.monotonic)
    try:
        found = client.discover()
        if not found.revocation_endpoint:
            return "the issuer takes no revocations; end the session there"
        client.revoke(found.revocation_endpoint, renewal.client_id, renewal.refresh_token)
    finally:
        client.close()
    return "its renewal is revoked at the issuer; the last token stays good until it ends"
