"""Notices on a phone, in real Chromium: turned on by a press, sent encrypted through a push service, and opened by a
tap, which does not vote (J-18)."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.console.pages import ARGUMENTS, PATIENCE_MS, PHONE, answered, asked, link, origin, page_of, reached

from channels.post_server import Posted
from channels.push_service import SubscribedBrowser
from installed import require
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("notices", "console", "http-ece"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("J-18")]
CONFIG = """
[push]
contact = "mailto:ops@example.org"

[outgoing]
allow = ["127.0.0.1/32"]
"""
SUBSCRIBE = """
let made = null;
const endpoint = %s, keys = %s;
PushManager.prototype.getSubscription = async () => made;
PushManager.prototype.subscribe = async (options) => made = {
    options: {applicationServerKey: options.applicationServerKey.buffer},
    toJSON: () => ({endpoint, keys}),
    unsubscribe: async () => { made = null; return true; },
};
"""
"""Chromium's own push service is on the internet; what it would give to the page is made here."""
NOTICES = """async () => (await (await navigator.serviceWorker.ready).getNotifications())
    .map(({title, body, data}) => ({title, body, path: data.path}))"""
WATCH = """() => {
    const {registration} = self, show = registration.showNotification.bind(registration);
    self.shown = new Promise((resolve, reject) => {
        registration.showNotification = (...notice) => show(...notice).then(resolve, reject);
    });
}"""
"""The browser stores a notice before it displays it. One that is read between the two counts as closed by the user and
is removed, so a test reads notices only after the worker's promise to show one was resolved."""
SHOWN = """(limit_ms) => Promise.race([self.shown, new Promise((_, reject) => {
    setTimeout(reject, limit_ms, new Error('no notice was shown'));
})])"""
CLICK = """async () => {
    const [notification] = await self.registration.getNotifications();
    self.dispatchEvent(new NotificationEvent('notificationclick', {notification}));
}"""


class PushService:
    """A push service on loopback that keeps what is posted to it."""

    def __init__(self) -> None:
        self.got: list[Posted] = []
        self.arrived = threading.Condition()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with service.arrived:
                    service.got.append(Posted(f"POST {self.path}", headers, body))
                    service.arrived.notify_all()
                self.send_response(201)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Keep the tests' output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def wait_for(self, count: int) -> Posted:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.got) >= count, PATIENCE_MS / 1000)
            return self.got[count - 1]


@pytest.fixture(scope="module")
def browser(driver: Any) -> Generator[Any]:
    """The whole of Chromium, which shows notices."""
    browser = driver.chromium.launch(executable_path=str(require("notices")), args=ARGUMENTS)
    yield browser
    browser.close()


@pytest.fixture
def service() -> Generator[PushService]:
    there = PushService()
    serving = threading.Thread(target=there.server.serve_forever, args=(0.05,))
    serving.start()
    yield there
    there.server.shutdown()
    serving.join()
    there.server.server_close()


@pytest.fixture(scope="module")
def stack_config() -> str:
    """Notices for browsers."""
    return CONFIG


def subscriptions(stack: Stack) -> list[dict[str, Any]]:
    return stack.get("/v1/push-subscriptions")["items"]


def deliver(page: Any, stack: Stack, content: bytes) -> None:
    """Have the browser receive a message, as from its push service, and wait until its notice is shown."""
    reached(page, "async () => (await navigator.serviceWorker.ready).active.state === 'activated'")
    [worker] = page.context.service_workers
    worker.evaluate(WATCH)
    devtools = page.context.new_cdp_session(page)
    found: list[str] = []
    devtools.on("ServiceWorker.workerRegistrationUpdated", lambda one: found.extend(
        each["registrationId"] for each in one["registrations"] if not each["isDeleted"]))
    devtools.send("ServiceWorker.enable")
    while not found:
        page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    devtools.send("ServiceWorker.deliverPushMessage", {
        "origin": origin(stack), "registrationId": found[-1], "data": content.decode()})
    devtools.detach()
    worker.evaluate(SHOWN, PATIENCE_MS)


def test_a_notice_is_turned_on_sent_opened_and_turned_off(browser: Any, stack: Stack, service: PushService) -> None:
    phone = SubscribedBrowser(service)
    context = browser.new_context(viewport=PHONE)
    context.grant_permissions(["notifications"], origin=origin(stack))
    context.add_init_script(SUBSCRIBE % (json.dumps(phone.endpoint), json.dumps(phone.keys)))
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(link(stack))
    page.get_by_role("button", name="Notify me on this device").click()
    page.get_by_text("This device is notified").wait_for()
    assert [one["host"] for one in subscriptions(stack)] == ["127.0.0.1"]

    page.get_by_role("button", name="Send a test").click()
    page.get_by_text("The test was sent").wait_for()
    assert json.loads(phone.read(service.wait_for(1)))["title"] == "Interlock can reach you"

    approval = asked(stack, "touch by-notice", "notice")
    posted = service.wait_for(2)
    content = phone.read(posted)
    assert json.loads(content) == {"title": "1 approval waits", "body": "Open it to read and decide.",
                                   "approval_id": approval}
    assert phone.claims(posted)["aud"] == service.url

    deliver(page, stack, content)
    assert page.evaluate(NOTICES) == [{"title": "1 approval waits", "body": "Open it to read and decide.",
                                       "path": f"/console/a/{approval}"}]
    context.service_workers[0].evaluate(CLICK)
    page.wait_for_url(f"**/console/a/{approval}")
    page.get_by_role("button", name="Deny").wait_for()
    reached(page, f"async () => (await ({NOTICES})()).length === 0")
    assert stack.get(f"/v1/approvals/{approval}")["state"] == "pending"
    answered(stack, approval, "deny")

    page.close()
    page = context.new_page()
    page.goto(f"{origin(stack)}/console/")
    page.get_by_text("This device is notified").first.wait_for(state="attached")
    page.get_by_text("Notices on this device").click()
    page.get_by_role("button", name="Turn off").click()
    page.get_by_role("button", name="Notify me on this device").wait_for()
    assert subscriptions(stack) == []
    assert page.evaluate("Object.keys(localStorage).filter((name) => name.startsWith('interlock.half'))") == []
    context.close()


def test_a_logout_ends_the_notices_of_its_device(browser: Any, stack: Stack, service: PushService) -> None:
    phone = SubscribedBrowser(service)
    context = browser.new_context(viewport=PHONE)
    context.grant_permissions(["notifications"], origin=origin(stack))
    context.add_init_script(SUBSCRIBE % (json.dumps(phone.endpoint), json.dumps(phone.keys)))
    page = context.new_page()
    page.goto(link(stack))
    page.get_by_role("button", name="Notify me on this device").click()
    page.get_by_text("This device is notified").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Key").wait_for()
    assert subscriptions(stack) == []
    assert page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})") == "{}"
    context.close()


def test_a_browser_that_blocks_notices_gets_instructions(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack) as page:
        turn_on = page.get_by_role("button", name="Notify me on this device")
        turn_on.wait_for()
        assert page.evaluate("Notification.permission") == "default", "no permission is asked for without a press"
        turn_on.click()
        # A browser of a test refuses every permission that was not granted to it.
        page.get_by_text("This browser blocks notices").wait_for()
        assert turn_on.count() == 0
    assert subscriptions(stack) == []
