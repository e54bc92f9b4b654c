"""Pages of the console in a browser, and what they show."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from proof.processes.stack import Stack

PHONE = {"width": 360, "height": 740}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run"]
PATIENCE_MS = 20_000
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
ENDED = ("succeeded", "failed", "timed_out", "canceled", "rejected", "expired")


class Login(NamedTuple):
    """Both halves of a login at an origin: the cookies, and what a tab keeps of it."""

    origin: str
    cookies: list[Any]
    kept: dict[str, str]


_logins: WeakKeyDictionary[Stack, Login] = WeakKeyDictionary()
"""The login of each stack that pages share; what else they keep is in a context of their own."""


def interlock(stack: Stack, *words: str) -> str:
    run = stack.interlock(*words, "--state", str(stack.state), "--url", stack.url)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def link(stack: Stack) -> str:
    return next(word for word in interlock(stack, "console", "--no-open").split() if word.startswith("http"))


@contextmanager
def page_of(browser: Any, stack: Stack, path: str = "/console/") -> Iterator[Any]:
    """A phone's page at this path, logged in; what it asked of other origins, and its errors, must be nothing."""
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    elsewhere: list[str] = []
    errors: list[str] = []
    page.on("request", lambda one: None if one.url.removeprefix("blob:").startswith(origin(stack))
            else elsewhere.append(one.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        if stack in _logins:
            _use(_logins[stack], page)
        else:
            page.goto(link(stack))
            page.get_by_role("heading", name="Waiting for you").wait_for()
            _logins[stack] = Login(origin(stack), context.cookies(), page.evaluate("({...sessionStorage})"))
        if page.url != f"{origin(stack)}{path}":
            page.goto(f"{origin(stack)}{path}")
        if path == "/console/":
            page.get_by_role("heading", name="Waiting for you").wait_for()
        try:
            yield page
        except BaseException as error:
            for one in errors:
                error.add_note(f"The page raised: {one}")
            raise
        assert elsewhere == []
        assert errors == [], errors
        assert page.evaluate("window.ran") is None
    finally:
        context.close()


def _use(login: Login, page: Any) -> None:
    """Log in with the login of an earlier page."""
    page.context.add_cookies(login.cookies)
    page.add_init_script(f"""if (location.origin === {json.dumps(login.origin)} && sessionStorage.length === 0)
        Object.assign(sessionStorage, {json.dumps(login.kept)})""")


def reached(page: Any, condition: str) -> None:
    """Wait until this asynchronous function of the page returns true. Playwright's own wait takes the promise that such
    a function returns for an answer."""
    began = time.monotonic()
    while not page.evaluate(condition):
        assert time.monotonic() - began < PATIENCE_MS / 1_000, condition
        page.evaluate(PAINTED)


def read_to_end(page: Any) -> None:
    """Wait until the request of an approval is on the page, and turn the wheel until its end was on the screen."""
    page.locator(".end").wait_for(state="attached")
    page.evaluate(PAINTED)  # Nothing is scrolled further than what was laid out.
    page.mouse.wheel(0, 50_000)


def origin(stack: Stack) -> str:
    return stack.url.replace("127.0.0.1", "localhost")


def submitted(stack: Stack, agent: str, prompt: str, session: str, workspace: Path | None = None) -> dict[str, Any]:
    """Submit a prompt to the agent's session of this name, in the stack's workspace or another; the command."""
    target = {"agent_id": agent, "session_key": f"agent:{agent}:{session}",
              "workspace": str(workspace or stack.workspace)}
    message = {"role": "user", "content": [{"contentType": "text", "value": prompt}]}
    answer = stack.post("/v1/commands", {"type": "execute", "target": target, "payload": {"messages": [message]}},
                        secrets.token_hex())
    assert answer.is_success, answer.text
    return answer.json()


def waiting(stack: Stack, command: dict[str, Any]) -> list[str]:
    """The approvals that a command waits for."""
    return [one["id"] for one in stack.get("/v1/approvals", state="pending", limit=100)["items"]
            if one["command_id"] == command["id"]]


def asked(stack: Stack, line: str, session: str, agent: str = "shell") -> str:
    """Have an agent ask about what this prompt makes it do, the shell about this line; the approval's id."""
    command = submitted(stack, agent, line, session)
    stack.until(lambda: waiting(stack, command) != [])
    return waiting(stack, command)[0]


def answered(stack: Stack, approval: str, decision: Literal["grant", "deny"], comment: str | None = None) -> None:
    """Vote as the owner, from elsewhere than the page."""
    answer = stack.post(f"/v1/approvals/{approval}/grants", {"decision": decision, "comment": comment},
                        secrets.token_hex())
    assert answer.is_success, answer.text


def ran(stack: Stack, agent: str, prompt: str, session: str) -> str:
    """Have an agent do what this prompt makes it do, and allow all of it; the session's id once that has ended."""
    command = submitted(stack, agent, prompt, session)

    def is_done() -> bool:
        for approval in waiting(stack, command):
            answered(stack, approval, "grant")
        return stack.get(f"/v1/commands/{command['id']}")["state"] in ENDED

    stack.until(is_done)
    ended = stack.get(f"/v1/commands/{command['id']}")
    assert ended["state"] == "succeeded", ended
    return ended["target"]["session_id"]
