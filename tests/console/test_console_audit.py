"""The audit view in real Chromium: the log is verified in the page, and what was tampered with is red (J-7)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.command.tampering import KEY, MUTATIONS, fork, lines_of, make_log, roll_back, signed
from tests.console.audit_imposter import Imposter, opened, verdict
from tests.console.pages import asked, interlock, page_of

from interlock.command.audit.audit_check import compare, verify
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore")]
ROUNDS = 2
"""How often each kind of tampering is tried, each time on another log."""


@pytest.mark.req("J-7")
def test_the_gateways_own_log_is_verified_and_its_checkpoint_stored(browser: Any, stack: Stack) -> None:
    asked(stack, "true", "audited")
    with page_of(browser, stack) as page:
        page.get_by_role("link", name="Audit").click()
        page.wait_for_url("**/console/audit")
        assert verdict(page).state == "verified"
        assert "Verified: records 1 to " in page.locator(".verdict").inner_text()
        assert "had no checkpoint" in page.locator(".verdict").inner_text()
        page.get_by_role("button", name="Verify again").click()
        page.get_by_text("continues from the checkpoint").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.req("J-7")
def test_one_flipped_byte_is_red_at_its_record(browser: Any, stack: Stack, tmp_path: Path) -> None:
    interlock(stack, "audit", "export", str(tmp_path / "log"))
    lines = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"action":"', b'"action":"x', 1)
    with page_of(browser, stack) as page:
        page.context.route("**/v1/audit/export", lambda one: one.fulfill(body=b"".join(lines)))
        opened(page, stack)
        assert verdict(page) == ("bad", "record changed", 2)
        assert "First bad record: 2." in page.get_by_role("alert").inner_text()
        page.locator(".records li").first.wait_for()
        while page.locator("li.tampered").count() == 0:
            page.get_by_role("button", name="Older records").click()
            page.get_by_text("Loading…").wait_for(state="hidden")
        assert page.locator("li.tampered summary").inner_text().startswith("2 ")


@pytest.mark.req("J-7", "U-5")
def test_the_page_and_python_find_the_same_first_invalid_record(browser: Any, stack: Stack) -> None:
    dice = random.Random(11)
    kinds: set[str | None] = set()
    with page_of(browser, stack) as page:
        imposter = Imposter(page)
        opened(page, stack)
        verdict(page)
        for number, mutation in enumerate([*MUTATIONS] * ROUNDS):
            records = make_log(dice, dice.randrange(2, 14))
            if number < len(MUTATIONS):
                assert imposter.check(lines_of(records, signed(records))).state == "verified"
            mutant = mutation(dice, records)
            expected = verify(mutant.lines, KEY.public_key())
            kind = "record changed" if expected.kind == "bit flipped" else expected.kind and str(expected.kind)
            state = "verified" if kind is None else "bad"
            assert imposter.check(mutant.lines) == (state, kind, expected.seq), mutant.kind
            kinds.add(kind)
    assert len(kinds) >= 8


@pytest.mark.req("J-7", "U-5")
def test_a_browser_remembers_the_log_that_it_verified(browser: Any, stack: Stack) -> None:
    dice = random.Random(5)
    with page_of(browser, stack) as page:
        imposter = Imposter(page)
        opened(page, stack)
        verdict(page)
        for mutation in (roll_back, fork):
            made = (mutation(dice, make_log(dice, 9)) for _ in range(99))
            mutant = next(one for one in made if verify(one.lines, KEY.public_key()).kind is None)
            assert mutant.kept is not None
            expected = compare(mutant.lines, mutant.kept, KEY.public_key())
            assert imposter.check(mutant.lines).state == "verified"
            assert imposter.check(mutant.lines, mutant.kept) == ("bad", str(expected.kind), expected.seq)


@pytest.mark.req("J-7")
def test_a_pinned_key_takes_precedence(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack) as page:
        opened(page, stack)
        assert verdict(page).state == "verified"
        page.get_by_text("Fingerprint of the key").click()
        page.get_by_label("Fingerprint that you got").fill("00" * 32)
        page.get_by_role("button", name="Pin this key").click()
        page.get_by_text("This is not the fingerprint").wait_for()
        page.get_by_label("Fingerprint that you got").fill(stack.get("/v1/audit/key")["sha256"])
        page.get_by_role("button", name="Pin this key").click()
        page.get_by_text("Pinned in this browser.").wait_for()
        imposter = Imposter(page)
        records = make_log(random.Random(1), 4)
        page.evaluate("localStorage.removeItem('interlock.audit.witness')")
        assert imposter.check(lines_of(records, signed(records))) == ("bad", "bad signature", None)
        page.get_by_text("is not the one you pinned").wait_for()


@pytest.mark.req("J-7")
def test_a_search_has_a_url_and_finds_by_action(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack) as page:
        opened(page, stack)
        page.locator(".records li").first.wait_for()
        page.get_by_text("Search the log").click()
        page.get_by_label("Action").fill("login")
        page.get_by_role("button", name="Search", exact=True).click()
        page.wait_for_url("**/console/audit?action=login")
        page.locator(".records li", has_not_text="login").first.wait_for(state="detached")
        actions = page.locator(".records strong")
        actions.first.wait_for()
        assert {*actions.all_inner_texts()} == {"login"}
        page.locator(".records summary").first.press("Enter")
        assert '"action": "login"' in page.locator(".records pre").first.inner_text()
