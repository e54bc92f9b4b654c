"""A fast stream in real Chromium: every piece is shown at its place, once, at any rate (J-4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any, Literal

import pytest
from tests.console.pages import asked, interlock, origin, page_of, ran
from tests.console.payloads import HOSTILE

from benchmarks.console.text_stream import SHOWN, pieces
from benchmarks.harness.scripted_runner import ScriptedRunner, Session, delta_message
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-4")]
NO_CONNECTION = "No connection to the gateway"
CHECK_MS, RETRY_MS = 25_000, 1_000
"""Of the page: a check finds a connection lost that brought nothing since the last one; so soon another is opened."""
READ_TIMEOUT_MS = 30_000
"""Of the page: a read whose answer has not begun by then is given up."""
NUMBERED = f"""count => {{
    const found = (({SHOWN}).match(/\\d+/g) ?? []).map(Number);
    return found.length === count && found.every((one, at) => one === at);
}}"""
"""Whether this many pieces are shown, each once and in order, as Markdown or not."""
LONG = "".join(pieces(3_000))
"""More than is read as Markdown."""


@pytest.fixture(scope="module")
def runner(stack: Stack) -> Generator[ScriptedRunner]:
    """A runner beside the stack's own, which sends what a test has it send."""
    runner = ScriptedRunner.paired(stack.port, (stack.state / "owner.key").read_text().strip(), "streaming")
    yield runner
    runner.close()


@pytest.fixture(autouse=True)
def tended(runner: ScriptedRunner) -> None:
    runner.tend()


def send(runner: ScriptedRunner, session: Session, texts: list[str], offset: int = 0,
         kind: Literal["text", "thinking"] = "text") -> None:
    """Send pieces that follow each other."""
    for text in texts:
        runner.sock.sendall(delta_message(session, offset, text, kind))
        offset += len(text)


def test_a_long_fast_growing_text_is_shown_completely(browser: Any, stack: Stack, runner: ScriptedRunner) -> None:
    session = runner.open()
    with page_of(browser, stack) as page:
        page.goto(f"{origin(stack)}/console/sessions/{session.session_id}")
        page.locator(".block").first.wait_for()
        send(runner, session, pieces(3_000))
        page.wait_for_function(f"whole => ({SHOWN}) === whole", arg=LONG)
        parts = page.locator(".block.prose > div").all_text_contents()
        assert len(parts) > 1
        assert all(part.endswith("\n") for part in parts[:-1]), "an element begins where a line does"
        send(runner, session, ["tail\n", "end"], len(LONG))
        page.wait_for_function(f"whole => ({SHOWN}) === whole", arg=f"{LONG}tail\nend")
        assert page.locator(".block.prose > div").all_text_contents()[:-1] == parts[:-1]


def test_a_piece_is_shown_once_and_a_gap_is_marked_once(browser: Any, stack: Stack, runner: ScriptedRunner) -> None:
    session = runner.open()
    with page_of(browser, stack) as page:
        page.goto(f"{origin(stack)}/console/sessions/{session.session_id}")
        page.locator(".block").first.wait_for()
        send(runner, session, ["one 😀 ", "two "])
        send(runner, session, ["😀 two three "], 4)
        runner.sock.sendall(delta_message(session, 30, "nine ", omitted=14))
        send(runner, session, ["ten"], 35)
        page.wait_for_function(f"() => ({SHOWN}).includes('ten')")
        assert page.evaluate(SHOWN).strip() == "one 😀 two three …nine ten"


def test_a_network_cut_in_mid_stream_loses_no_text(browser: Any, stack: Stack, runner: ScriptedRunner) -> None:
    """A page continues after its last event: events sent meanwhile are shown once, in order."""
    session = runner.open()
    texts = pieces(900)
    with page_of(browser, stack) as page:
        page.goto(f"{origin(stack)}/console/sessions/{session.session_id}")
        page.locator(".block").first.wait_for()
        offset = 0
        for cut in range(3):
            before, meanwhile = texts[cut * 300:cut * 300 + 100], texts[cut * 300 + 100:cut * 300 + 300]
            send(runner, session, before, offset)
            offset += len("".join(before))
            page.wait_for_function(NUMBERED, arg=cut * 300 + 100)
            send(runner, session, meanwhile[:50], offset)
            page.context.set_offline(True)
            page.get_by_text(NO_CONNECTION).wait_for()
            send(runner, session, meanwhile[50:], offset + len("".join(meanwhile[:50])))
            offset += len("".join(meanwhile))
            page.context.set_offline(False)
            page.wait_for_function(NUMBERED, arg=cut * 300 + 300)
            page.get_by_text(NO_CONNECTION).wait_for(state="detached")


def test_a_silent_connection_is_detected_and_replaced(browser: Any, stack: Stack) -> None:
    """Nothing closes a socket whose network is gone, or whose peer forgot it; two checks without a message do."""
    passed: list[bool] = []

    def relay(page_side: Any) -> None:
        """Pass on what the page sends; of the first socket nothing comes back."""
        gateway_side = page_side.connect_to_server()
        passed.append(bool(passed))
        answers = passed[-1]
        gateway_side.on_message(lambda message: page_side.send(message) if answers else None)

    held: list[Any] = []
    with page_of(browser, stack) as page:
        page.route_web_socket("**/v1/stream?*", relay)
        page.route("**/v1/stream-tickets", lambda route: held.append(route) if passed else route.continue_())
        page.clock.install()
        page.goto(f"{origin(stack)}/console/")
        stack.until(lambda: bool(page.evaluate("1") and passed))
        page.clock.run_for(CHECK_MS // 2)
        assert page.get_by_text(NO_CONNECTION).count() == 0
        page.clock.run_for(2 * CHECK_MS + RETRY_MS)
        page.get_by_text(NO_CONNECTION).wait_for()
        stack.until(lambda: bool(page.evaluate("1") and held))
        for route in held:
            route.continue_()
        page.get_by_text(NO_CONNECTION).wait_for(state="detached")
        assert passed == [False, True]


def test_a_stream_that_fails_inside_the_gateway_continues(browser: Any, stack: Stack, runner: ScriptedRunner) -> None:
    """The socket stays open when one of its streams fails, so nothing else would show that no more comes of it."""
    session = runner.open()
    failed: list[str] = []

    def relay(page_side: Any) -> None:
        """Pass on both ways; the first stream of a session is answered with a failure."""
        gateway_side = page_side.connect_to_server()

        def ask(message: str) -> None:
            asked = json.loads(message)
            if not failed and asked.get("path", "").endswith("/frames"):
                failed.append(asked["path"])
                problem = {"status": 500, "code": "InternalError", "title": "Interlock failed", "retryable": True}
                page_side.send(json.dumps({"ref": asked["ref"], "problem": problem}))
            else:
                gateway_side.send(message)

        page_side.on_message(ask)

    with page_of(browser, stack) as page:
        page.route_web_socket("**/v1/stream?*", relay)
        page.goto(f"{origin(stack)}/console/sessions/{session.session_id}")
        page.locator(".block").first.wait_for()
        stack.until(lambda: bool(page.evaluate("1") and failed))
        send(runner, session, ["all the same"])
        page.get_by_text("all the same").wait_for()


def test_a_proxy_that_refuses_websockets_leaves_the_page_readable(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "write behind-a-proxy.txt 1", "behind-a-proxy")
    with page_of(browser, stack) as page:
        page.route_web_socket("**/v1/stream?*", lambda socket: socket.close())
        page.goto(f"{origin(stack)}/console/")
        page.get_by_text(NO_CONNECTION).wait_for()
        page.locator(f"a[href='/console/a/{approval}']").wait_for()
        interlock(stack, "deny", approval, "--yes")
        page.locator(f"a[href='/console/a/{approval}']").wait_for(state="detached")


def test_a_failed_read_is_repeated_once_the_gateway_is_reachable(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "write after-a-failure.txt 1", "after-a-failure")
    with page_of(browser, stack) as page:
        page.route("**/v1/approvals?*", once(UNANSWERED["abort"]))
        page.goto(f"{origin(stack)}/console/")
        page.locator(f"a[href='/console/a/{approval}']").wait_for()
        page.get_by_text(NO_CONNECTION).wait_for(state="detached")


UNANSWERED = {"abort": lambda route: route.abort(), "fail": lambda route: route.fulfill(
    status=503, json={"code": "Unavailable", "detail": "The ledger cannot be read now."})}
"""How a read fails: without an answer, or with one that another attempt may do better than."""


def once(fail: Callable[[Any], None]) -> Callable[[Any], None]:
    """Let the first request of a route fail, and those behind it pass.

    The route stays, other than with Playwright's `times=1`: a view's reads may overlap, and the browser is not to
    change what it intercepts while the second of them is on its way.
    """
    failed: list[Any] = []

    def answer(route: Any) -> None:
        if failed:
            route.continue_()
        else:
            failed.append(route)
            fail(route)

    return answer


@pytest.mark.parametrize("how", UNANSWERED)
def test_an_unreadable_request_is_shown_later_without_another_visit(browser: Any, stack: Stack, how: str) -> None:
    """Also when nothing else changes meanwhile: a phone that opens a notice may have no network for a moment."""
    approval = asked(stack, f"write unread-{how}.txt 1", f"unread-{how}")
    with page_of(browser, stack) as page:
        page.route(f"**/v1/approvals/{approval}/input", once(UNANSWERED[how]))
        page.route(f"**/v1/approvals/{approval}", once(UNANSWERED[how]))
        page.goto(f"{origin(stack)}/console/a/{approval}")
        page.get_by_role("button", name="Allow once", disabled=False).wait_for()
        assert f"unread-{how}" in page.locator("section pre").first.inner_text()
        assert page.locator("main .bad").count() == 0


def test_the_error_of_an_unreadable_approval_disappears_with_the_next_read(browser: Any, stack: Stack) -> None:
    """The view shows no error for a read without an answer: the page shows that the connection is lost."""
    approval = asked(stack, "write reread.txt 1", "reread")
    with page_of(browser, stack, f"/console/a/{approval}") as page:
        page.get_by_role("button", name="Allow once", disabled=False).wait_for()
        page.route(f"**/v1/approvals/{approval}", UNANSWERED["fail"])
        other = asked(stack, "write another.txt 1", "another")
        page.get_by_role("alert").wait_for()
        page.unroute(f"**/v1/approvals/{approval}")
        page.get_by_role("alert").wait_for(state="detached")
        assert page.get_by_role("button", name="Allow once", disabled=False).count() == 1
    interlock(stack, "deny", other, "--yes")


@pytest.mark.parametrize("how", UNANSWERED)
@pytest.mark.parametrize("part", ["", "/frames?*"])
def test_an_unreadable_session_is_shown_later_without_another_visit(
    browser: Any, stack: Stack, part: str, how: str
) -> None:
    session = ran(stack, "shell", "echo whole", f"session-{how}-{len(part)}")
    with page_of(browser, stack) as page:
        page.route(f"**/v1/sessions/{session}{part}", once(UNANSWERED[how]))
        page.goto(f"{origin(stack)}/console/sessions/{session}")
        page.locator(".tool", has_text="echo whole").wait_for()
        page.get_by_role("heading", name="echo whole").wait_for()
        page.get_by_role("alert").wait_for(state="detached")


def test_a_read_without_an_answer_is_repeated(browser: Any, stack: Stack) -> None:
    """Nothing fails a request on a connection whose network is gone, and no event follows in a session that is idle."""
    session = ran(stack, "shell", "echo late", "session-never")
    held: list[Any] = []
    with page_of(browser, stack) as page:
        page.clock.install()
        page.route(f"**/v1/sessions/{session}/frames?*", once(held.append))
        page.goto(f"{origin(stack)}/console/sessions/{session}")
        page.get_by_role("heading", name="echo late").wait_for()
        stack.until(lambda: bool(page.evaluate("1") and held))
        assert page.locator(".tool").count() == 0
        page.clock.run_for(READ_TIMEOUT_MS + RETRY_MS)
        page.locator(".tool", has_text="echo late").wait_for()


def test_thoughts_are_folded_and_hostile_text_in_them_stays_text(
    browser: Any, stack: Stack, runner: ScriptedRunner
) -> None:
    session = runner.open()
    with page_of(browser, stack) as page:
        page.goto(f"{origin(stack)}/console/sessions/{session.session_id}")
        page.locator(".block").first.wait_for()
        send(runner, session, [f"{one}\n" for one in HOSTILE], kind="thinking")
        summary = page.get_by_text("Thinking", exact=True)
        summary.wait_for()
        assert page.locator("details .prose").count() == 0
        summary.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelector('details .prose')?.textContent.includes('<U+202E>')")
        assert page.locator("details .prose script, details .prose img, details .prose a").count() == 0
        assert HOSTILE[0] in page.locator("details .prose").text_content()
        send(runner, session, ["and on"], sum(len(one) + 1 for one in HOSTILE), kind="thinking")
        page.locator("details .prose", has_text="and on").wait_for()
