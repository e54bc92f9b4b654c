"""The console as an app on a phone: it can be installed, opens without a connection, and keeps nothing but itself."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.console.pages import PHONE, answered, asked, link, origin, page_of, reached

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-18")]
NO_CONNECTION = "No connection to the gateway."
CONTROLLED = """() => navigator.serviceWorker.ready.then((found) => new Promise((resolve) => {
    const settled = () => { if (found.active?.state === 'activated') resolve(found.scope); };
    found.active.addEventListener('statechange', settled);
    settled();
}))"""
KEPT = """async () => {
    const found = [];
    for (const name of await caches.keys()) {
        const cache = await caches.open(name);
        for (const request of await cache.keys()) {
            found.push([request.url, await (await cache.match(request)).text()]);
        }
    }
    return found;
}"""


def controlled(page: Any) -> str:
    """Wait until the service worker is active; its scope."""
    return page.evaluate(CONTROLLED)


def kept(page: Any) -> dict[str, str]:
    """Everything in Cache Storage, by path."""
    return {urlsplit(url).path: text for url, text in page.evaluate(KEPT)}


def test_a_phone_can_install_the_console(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack) as page:
        assert controlled(page) == f"{origin(stack)}/console/"
        devtools = page.context.new_cdp_session(page)
        manifest = devtools.send("Page.getAppManifest")
        assert manifest["errors"] == []
        assert manifest["url"] == f"{origin(stack)}/console/manifest.webmanifest"
        found = devtools.send("Page.getInstallabilityErrors")["installabilityErrors"]
        # A browser context of a test is a private window, which nothing is installed from.
        assert {one["errorId"] for one in found} <= {"in-incognito"}


def test_without_a_connection_the_console_opens_and_reports_it(browser: Any, stack: Stack) -> None:
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto(link(stack))
    page.get_by_role("heading", name="Waiting for you").wait_for()
    controlled(page)
    stack.kill("gateway")
    page.goto(f"{origin(stack)}/console/a/apr_0123456789")
    page.get_by_text(NO_CONNECTION).wait_for()
    anonymous = context.new_page()
    anonymous.goto(f"{origin(stack)}/console/")
    anonymous.get_by_text(NO_CONNECTION).wait_for()
    stack.start("gateway")
    stack.ready()
    anonymous.get_by_text(NO_CONNECTION).wait_for(state="detached")
    anonymous.get_by_label("Key").wait_for()
    page.goto(f"{origin(stack)}/console/")
    page.get_by_role("heading", name="Waiting for you").wait_for()
    page.get_by_text(NO_CONNECTION).wait_for(state="detached")
    context.close()


def test_what_could_not_be_loaded_is_loaded_once_there_is_a_connection(browser: Any, stack: Stack) -> None:
    """A view that was opened meanwhile appears by itself, with its styles; the keys work again."""
    context = browser.new_context(viewport=PHONE, service_workers="block")
    page = context.new_page()
    page.goto(link(stack))
    page.get_by_role("heading", name="Waiting for you").wait_for()
    context.set_offline(True)
    page.keyboard.press("?")
    page.get_by_role("link", name="Sessions").click()
    page.get_by_role("alert").get_by_text(NO_CONNECTION).wait_for()
    context.set_offline(False)
    page.get_by_role("heading", name="Sessions").wait_for()
    page.wait_for_function("() => [...document.styleSheets].some((one) => one.href.includes('/Sessions-'))")
    page.get_by_text(NO_CONNECTION).wait_for(state="detached")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    context.close()


def test_a_page_with_a_view_that_could_not_be_loaded_offers_a_reload(browser: Any, stack: Stack) -> None:
    """Chromium keeps the failure of an import for the life of the page, so only a new page has the view."""
    context = browser.new_context(viewport=PHONE, service_workers="block")
    page = context.new_page()
    page.goto(link(stack))
    page.get_by_role("link", name="Tasks").click()  # With the style that views share: it would be missed first.
    page.get_by_role("heading", name="Tasks").wait_for()
    stack.kill("gateway")
    page.get_by_role("link", name="Runners").click()
    page.get_by_role("alert").get_by_text(NO_CONNECTION).wait_for()
    stack.start("gateway")
    stack.ready()
    page.get_by_role("button", name="Reload").click()
    page.get_by_role("heading", name="Runners").wait_for()
    assert page.get_by_role("button", name="Reload").count() == 0
    context.close()


def test_only_the_page_and_its_files_are_cached(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch kept-by-nobody", "kept")
    with page_of(browser, stack) as page:
        controlled(page)
        page.goto(f"{origin(stack)}/a/{approval}")
        page.locator(".end").wait_for(state="attached")
        page.get_by_role("link", name="Sessions").click()
        page.get_by_role("heading", name="Sessions").wait_for()
        found = kept(page)
        assert "/console/" in found
        assert all(path == "/console/" or path.startswith("/console/assets/") for path in found)
        assert not any(approval in path or "kept-by-nobody" in text for path, text in found.items())
        stored = page.evaluate("JSON.stringify({...localStorage})")
        assert approval not in stored
        assert "kept-by-nobody" not in stored
    answered(stack, approval, "deny")


def test_a_new_build_is_shown_at_the_next_load(browser: Any, stack: Stack) -> None:
    """The page comes from the gateway if it answers, and what is kept of the earlier build is dropped."""
    with page_of(browser, stack) as page:
        controlled(page)
        page.reload()
        page.get_by_role("heading", name="Waiting for you").wait_for()
        page.evaluate("""async () => {
            const cache = await caches.open('interlock-shell');
            const headers = {'Content-Type': 'text/html'};
            await cache.put('/console/', new Response('<title>Stale</title>', {headers}));
            await cache.put('/console/assets/stale.js', new Response('1'));
        }""")
        page.reload()
        page.get_by_role("heading", name="Waiting for you").wait_for()
        assert page.evaluate("navigator.serviceWorker.controller !== null")
        reached(page, """async () => {
            const cache = await caches.open('interlock-shell');
            return await cache.match('/console/assets/stale.js') === undefined
                && !(await (await cache.match('/console/')).text()).includes('Stale');
        }""")


def test_an_open_page_of_an_older_build_reports_it_and_reloads_at_the_next_link(browser: Any, stack: Stack) -> None:
    """The gateway was upgraded under an open tab: the tab stays usable, and leaves its build with the next view."""
    with page_of(browser, stack) as page:
        other = "<script type=module src=/console/assets/index-later0.js></script>"
        page.route("**/console/", lambda route: route.continue_() if route.request.is_navigation_request()
                   else route.fulfill(body=other, content_type="text/html"))
        page.reload()
        page.get_by_role("status").get_by_text("Reload this page").wait_for()
        page.get_by_role("heading", name="Waiting for you").wait_for()
        page.unroute("**/console/")
        page.evaluate("window.isEarlier = true")
        page.get_by_role("link", name="Sessions").click()
        page.get_by_role("heading", name="Sessions").wait_for()
        assert page.evaluate("window.isEarlier") is None
        page.get_by_text("Reload this page").wait_for(state="detached")


@pytest.mark.parametrize("path", ["/console/nowhere", "/console/a/", "/console/a/no%20id", "/console/sessionsx",
                                  "/console/sessions/no%20id", "/console/policy/a/b"])
def test_an_unknown_url_is_reported_with_a_link_to_the_inbox(browser: Any, stack: Stack, path: str) -> None:
    with page_of(browser, stack, path) as page:
        page.get_by_role("alert").get_by_text("Page not found.").wait_for()
        assert page.locator("nav [aria-current]").count() == 0
        page.get_by_role("main").get_by_role("link", name="Approvals").click()
        page.get_by_role("heading", name="Waiting for you").wait_for()
        assert urlsplit(page.url).path == "/console/"
        assert page.get_by_role("alert").count() == 0
