"""The audit view in real Chromium: the log is verified in the page, and what was tampered with is red (J-7)."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from proof.house import House
from tests.command.tampering import KEY, MUTATIONS, fork, lines_of, make_log, roll_back, signed
from tests.console.pages import interlock, origin, page_of

from interlock.command.audit_check import compare, verify
from interlock.command.note import Checkpoint, origin_of

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore")]
ROUNDS = 2
"""How often each kind of tampering is tried, each time on another log."""


class Verdict(NamedTuple):
    """What the page says of a log."""

    state: str
    kind: str | None
    record: int | None


def opened(page: Any, house: House) -> None:
    page.goto(f"{origin(house)}/console/audit")


def verdict(page: Any) -> Verdict:
    """Wait until the check has ended."""
    shown = page.locator(".verdict:not([data-state=reading])")
    shown.wait_for()
    record = shown.get_attribute("data-record")
    return Verdict(shown.get_attribute("data-state"), shown.get_attribute("data-kind"), int(record) if record else None)


class Imposter:
    """Answers the page's requests for the log in the gateway's place, with logs that Python wrote."""

    def __init__(self, page: Any) -> None:
        self.lines: Sequence[bytes] = ()
        self.checkpoint: Checkpoint | None = None
        raw = KEY.public_key().public_bytes_raw()
        key = {"origin": origin_of("gw_1", "t1"), "algorithm": "Ed25519", "public_key": base64.b64encode(raw).decode(),
               "sha256": hashlib.sha256(raw).hexdigest(), "note_key_id": "00000000"}
        context = page.context
        context.route("**/v1/audit/key", lambda one: one.fulfill(json=key))
        context.route("**/v1/audit/checkpoint", lambda one: one.fulfill(body=signed([]).note))
        context.route("**/v1/audit/export", lambda one: one.fulfill(body=b"".join(self.lines)))

    def check(self, page: Any, lines: Sequence[bytes], kept: Checkpoint | None = None) -> Verdict:
        """Have the page check these lines, as a browser that has seen `kept`."""
        self.lines = lines
        stored = json.dumps({"note": kept.note, "at": "2026-11-23T00:00:00Z"}) if kept is not None else None
        page.evaluate("""note => note === null ? localStorage.removeItem('interlock.audit.witness')
                         : localStorage.setItem('interlock.audit.witness', note)""", stored)
        page.get_by_role("button", name="Verify again").click()
        return verdict(page)


@pytest.mark.req("J-7")
def test_the_gateways_own_log_is_verified_and_its_checkpoint_kept(browser: Any, house: House) -> None:
    interlock(house, "run", "shell", "true", "--detach", "--session", "audited")
    with page_of(browser, house) as page:
        page.get_by_role("link", name="Audit").click()
        page.wait_for_url("**/console/audit")
        assert verdict(page).state == "whole"
        assert "Verified: records 1 to " in page.locator(".verdict").inner_text()
        assert "had no checkpoint" in page.locator(".verdict").inner_text()
        page.get_by_role("button", name="Verify again").click()
        page.get_by_text("goes on from the checkpoint").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.req("J-7")
def test_one_flipped_byte_is_red_at_its_record(browser: Any, house: House, tmp_path: Path) -> None:
    interlock(house, "audit", "export", str(tmp_path / "log"))
    lines = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"action":"', b'"action":"x', 1)
    with page_of(browser, house) as page:
        page.context.route("**/v1/audit/export", lambda one: one.fulfill(body=b"".join(lines)))
        opened(page, house)
        assert verdict(page) == ("bad", "record changed", 2)
        assert "First bad record: 2." in page.get_by_role("alert").inner_text()
        while page.locator("li.tampered").count() == 0:
            page.get_by_role("button", name="Older records").click()
            page.get_by_text("Loading…").wait_for(state="hidden")
        assert page.locator("li.tampered summary").inner_text().startswith("2 ")


@pytest.mark.req("J-7", "U-5")
def test_the_page_and_python_find_the_same_first_bad_record(browser: Any, house: House) -> None:
    dice = random.Random(11)
    kinds: set[str | None] = set()
    with page_of(browser, house) as page:
        imposter = Imposter(page)
        opened(page, house)
        verdict(page)
        for mutation in [*MUTATIONS] * ROUNDS:
            records = make_log(dice, dice.randrange(2, 14))
            assert imposter.check(page, lines_of(records, signed(records))).state == "whole"
            mutant = mutation(dice, records)
            expected = verify(mutant.lines, KEY.public_key())
            kind = "record changed" if expected.kind == "bit flipped" else expected.kind and str(expected.kind)
            state = "whole" if kind is None else "bad"
            assert imposter.check(page, mutant.lines) == (state, kind, expected.seq), mutant.kind
            kinds.add(kind)
    assert len(kinds) >= 8


@pytest.mark.req("J-7", "U-5")
def test_a_browser_remembers_the_log_that_it_saw(browser: Any, house: House) -> None:
    dice = random.Random(5)
    with page_of(browser, house) as page:
        imposter = Imposter(page)
        opened(page, house)
        verdict(page)
        for mutation in (roll_back, fork):
            made = (mutation(dice, make_log(dice, 9)) for _ in range(99))
            mutant = next(one for one in made if verify(one.lines, KEY.public_key()).kind is None)
            assert mutant.kept is not None
            expected = compare(mutant.lines, mutant.kept, KEY.public_key())
            assert imposter.check(page, mutant.lines).state == "whole"
            assert imposter.check(page, mutant.lines, mutant.kept) == ("bad", str(expected.kind), expected.seq)


@pytest.mark.req("J-7")
def test_a_pinned_key_is_what_counts(browser: Any, house: House) -> None:
    with page_of(browser, house) as page:
        opened(page, house)
        assert verdict(page).state == "whole"
        page.get_by_text("Fingerprint of the key").click()
        page.get_by_label("Fingerprint that you got").fill("00" * 32)
        page.get_by_role("button", name="Pin this key").click()
        page.get_by_text("It is not the fingerprint").wait_for()
        page.get_by_label("Fingerprint that you got").fill(house.get("/v1/audit/key")["sha256"])
        page.get_by_role("button", name="Pin this key").click()
        page.get_by_text("Pinned in this browser.").wait_for()
        imposter = Imposter(page)
        records = make_log(random.Random(1), 4)
        page.evaluate("localStorage.removeItem('interlock.audit.witness')")
        assert imposter.check(page, lines_of(records, signed(records))) == ("bad", "bad signature", None)
        page.get_by_text("is not the one you pinned").wait_for()


@pytest.mark.req("J-7")
def test_a_search_has_a_url_and_finds_by_action(browser: Any, house: House) -> None:
    with page_of(browser, house) as page:
        opened(page, house)
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
