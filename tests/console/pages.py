"""Pages of the console in a browser, and what they show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from proof.house import House

PHONE = {"width": 360, "height": 740}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--no-first-run"]
PATIENCE_MS = 20_000


def interlock(house: House, *words: str) -> str:
    run = house.interlock(*words, "--state", str(house.state), "--url", house.url)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def link(house: House) -> str:
    return next(word for word in interlock(house, "console", "--no-open").split() if word.startswith("http"))


@contextmanager
def page_of(browser: Any, house: House) -> Iterator[Any]:
    """A phone's page, logged in; what it asked of other origins, and its errors, must be nothing."""
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    elsewhere: list[str] = []
    errors: list[str] = []
    page.on("request", lambda one: None if one.url.removeprefix("blob:").startswith(origin(house))
            else elsewhere.append(one.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(link(house))
    page.get_by_role("heading", name="Waiting for you").wait_for()
    try:
        yield page
        assert elsewhere == []
        assert errors == [], errors
        assert page.evaluate("window.ran") is None
    finally:
        context.close()


def origin(house: House) -> str:
    return house.url.replace("127.0.0.1", "localhost")


def asked(house: House, line: str, session: str, agent: str = "shell") -> str:
    """Have an agent ask about what this prompt makes it do, the shell about this line; the approval's id."""
    interlock(house, "run", agent, line, "--detach", "--session", session)
    found: list[str] = []
    house.until(lambda: bool(found) or found.extend(
        one["id"] for one in house.get("/v1/approvals", state="pending")["items"] if one["session_id"] in {
            each["session_id"] for each in house.get("/v1/sessions")["items"]
            if each["session_key"] == f"agent:{agent}:{session}"}) or bool(found))
    return found[0]
