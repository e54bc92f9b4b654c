"""Passkeys in real Chromium, with an authenticator of its own: registered, voted with, revoked (J-17)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.console.pages import asked, interlock, origin, page_of

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-17")]
RULES = """
[[policy.rules]]
name = "takes a tap"
effect = "ask"
door = "tool"
command = "touch .*"
signed = "passkey"

[[policy.rules]]
name = "takes a signature"
effect = "ask"
door = "tool"
command = "echo .*"
signed = true
"""
INSIDE = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
          "isUserVerified": True, "automaticPresenceSimulation": True}


@pytest.fixture(scope="module")
def stack_config() -> str:
    """A policy that counts signed votes alone."""
    return RULES


@pytest.fixture(autouse=True)
def without_keys(stack: Stack) -> Iterator[None]:
    """The next test begins without the passkeys of this one."""
    yield
    for one in stack.get("/v1/signing-keys")["signing_keys"]:
        if not one.get("revoked_at"):
            stack.post(f"/v1/signing-keys/{one['key_id']}/revoke", {}, f"revoke-{one['key_id']}").raise_for_status()


@contextmanager
def page_with_device(browser: Any, stack: Stack, **device: Any) -> Iterator[tuple[Any, Any, str]]:
    """A page in a browser that has an authenticator; how to change that one, and its id."""
    with page_of(browser, stack) as page:
        devtools = page.context.new_cdp_session(page)
        devtools.send("WebAuthn.enable")
        made = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": {**INSIDE, **device}})
        yield page, devtools, made["authenticatorId"]


def register(page: Any, stack: Stack, label: str) -> None:
    page.goto(f"{origin(stack)}/console/access")
    page.get_by_text("Register a passkey").first.click()
    page.get_by_text("It does not show who created the passkey").wait_for()
    page.get_by_label("Name of the passkey").fill(label)
    page.get_by_role("button", name="Register a passkey").click()


def test_a_passkey_is_registered_votes_and_is_revoked(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch tapped", "tapped")
    with page_with_device(browser, stack) as (page, _, _):
        page.goto(f"{origin(stack)}/a/{approval}")
        page.get_by_text("You have no passkey for this page.").wait_for()
        assert page.get_by_role("button", name="Allow once").count() == 0, "nothing is offered that would not count"
        register(page, stack, "<b>phone</b>")
        page.get_by_text("Registered.").wait_for()
        row = page.locator("#signing li", has_text="<b>phone</b>")
        row.get_by_text("for this page").wait_for()
        page.goto(f"{origin(stack)}/a/{approval}")
        page.get_by_text("Only votes with a passkey count").wait_for()
        page.get_by_role("button", name="Allow once", disabled=False).click()
        page.get_by_text("Decided by").wait_for()
        stack.until((stack.workspace / "tapped").exists)
        (vote,) = stack.get(f"/v1/approvals/{approval}")["votes"]
        assert vote["method"] == "passkey"
        refused = asked(stack, "touch never", "denied")
        page.goto(f"{origin(stack)}/a/{refused}")
        page.get_by_role("button", name="Deny", disabled=False).click()
        page.get_by_text("Decided by").wait_for()
        assert stack.get(f"/v1/approvals/{refused}")["votes"][0]["method"] == "passkey"
        page.goto(f"{origin(stack)}/console/access")
        row.get_by_role("button", name="Revoke").click()
        row.get_by_role("button", name="Revoke it: votes with it no longer count").click()
        row.get_by_text("revoked", exact=True).wait_for()
        third = asked(stack, "touch again", "again")
        page.goto(f"{origin(stack)}/a/{third}")
        page.get_by_text("You have no passkey for this page.").wait_for()
    interlock(stack, "cancel", stack.get(f"/v1/approvals/{third}")["command_id"])
    export = stack.place / "log.jsonl"
    interlock(stack, "audit", "export", str(export))
    checked = stack.interlock("audit", "verify", str(export))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_unconfirmed_passkey_is_not_a_vote(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "echo unconfirmed", "unconfirmed")
    with page_with_device(browser, stack) as (page, devtools, device):
        register(page, stack, "key")
        page.get_by_text("Registered.").wait_for()
        devtools.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
        page.goto(f"{origin(stack)}/a/{approval}")
        page.get_by_text("Only signed votes count.").wait_for()
        page.get_by_role("button", name="Allow once", disabled=False).click()
        page.get_by_role("alert").get_by_text("The request was denied or timed out.").wait_for()
        assert "votes" not in stack.get(f"/v1/approvals/{approval}")
        devtools.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": True})
        page.get_by_role("button", name="Allow once", disabled=False).click()
        page.get_by_text("Decided by").wait_for()
        register(page, stack, "the same again")
        page.get_by_text("This device already has a passkey for you here.").wait_for()
        assert [one["label"] for one in stack.get("/v1/signing-keys")["signing_keys"]].count("the same again") == 0


def test_a_person_with_two_passkeys_chooses_and_the_page_remembers_it(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch two", "two")
    with page_with_device(browser, stack) as (page, devtools, first):
        register(page, stack, "first device")
        page.get_by_text("Registered.").wait_for()
        devtools.send("WebAuthn.setAutomaticPresenceSimulation", {"authenticatorId": first, "enabled": False})
        devtools.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": first})
        devtools.send("WebAuthn.addVirtualAuthenticator", {"options": INSIDE})
        register(page, stack, "second device")
        page.get_by_text("Registered.").wait_for()
        page.goto(f"{origin(stack)}/a/{approval}")
        page.get_by_label("Passkey").select_option("first device")
        page.get_by_role("button", name="Deny", disabled=False).click()
        page.get_by_role("alert").wait_for()
        page.reload()
        page.get_by_label("Passkey").wait_for()
        assert page.get_by_label("Passkey").evaluate("one => one.selectedOptions[0].textContent") == "first device"
        page.get_by_label("Passkey").select_option("second device")
        page.get_by_role("button", name="Deny", disabled=False).click()
        page.get_by_text("Decided by").wait_for()


def test_a_page_at_an_ip_address_explains_why_it_has_no_passkeys(browser: Any, stack: Stack) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{stack.url}/console/")
    page.get_by_label("Key").fill((stack.state / "owner.key").read_text().strip())
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Keys & devices").click()
    page.get_by_text("Passkeys do not work at an IP address.").wait_for()
    context.close()
