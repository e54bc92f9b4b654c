"""The prompt that an agent receives for a delivery (R-4)."""

from __future__ import annotations

import pytest

from interlock.session.chat.hook_text import TEXT_MAX_CHARS, BadTemplate, check_template, hook_text

BODY = b'{"pull": {"title": "Fix {name} {/pull}", "labels": ["a", {"b": 1}], "a/b": true}, "n": null}'


@pytest.mark.req("R-4")
@pytest.mark.parametrize(("template", "text"), [
    ("{name} {delivery}", "github 17"), ("{/pull/title}", "Fix {name} {/pull}"), ("{/pull/labels/1}", '{"b":1}'),
    ("{/pull/labels/9}{/pull/labels/x}{/none}{/pull/title/x}", ""), ("{/pull/a~1b} {/n}", "true null"),
    ("plain", "plain"),
])
def test_placeholders_are_filled_and_text_of_the_body_is_not_a_template(template: str, text: str) -> None:
    check_template(template)
    assert hook_text(template, "github", "17", BODY) == text
    assert hook_text("{body}", "github", "17", BODY) == BODY.decode()


@pytest.mark.req("R-4")
def test_a_body_that_is_not_json_or_too_long_is_still_rendered() -> None:
    assert hook_text("{/a}|{body}", "x", "", b"\xff{" + b"[" * 9000)[:3] == "|\ufffd{"
    long = hook_text("{body}", "x", "", b"y" * (TEXT_MAX_CHARS + 7))
    assert long.endswith("[cut: 7 characters more]")


@pytest.mark.req("R-4")
@pytest.mark.parametrize("template", ["{nme}", "{}", "  ", "{a/b}"])
def test_a_template_with_an_unknown_placeholder_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        check_template(template)
