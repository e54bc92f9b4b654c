"""The proof of policy, in a size that the ordinary suite can bear: python -m proof policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof import REPOSITORY
from proof.policy.documented_rules import pages, read_pages
from proof.policy.hostile_commands import ORDINARY, hostile_commands, hostile_inputs
from proof.policy.rule_attacks import PARTS, attack, every_rule, of_docs, of_presets, out_of_action

EVERY = 12
"""One of this many hostile commands is tested here."""


def test_the_proof_has_its_documented_size() -> None:
    assert len(hostile_commands()) >= 400
    assert len(hostile_inputs()) >= 150
    assert len(ORDINARY) >= 100


@pytest.mark.req("P-1", "A-9", "H-7", "Y-4")
def test_no_hostile_call_passes_a_rule_and_ordinary_calls_pass_the_presets() -> None:
    found = attack(hostile_commands()[::EVERY], *every_rule())

    print(found.table())
    assert found.passed_hostile == []
    assert found.passed


@pytest.mark.parametrize("part", PARTS)
def test_the_proof_detects_a_disabled_part(part: str) -> None:
    with out_of_action(part):
        found = attack(hostile_commands()[::EVERY], list(of_presets())[:2])
    assert found.passed_hostile
    assert not found.passed, "it prints FAILED and ends with 1"


def planted(root: Path, page: str, more: str) -> Path:
    """A tree with this page alone, and more at its end."""
    there, ours = root / page, REPOSITORY / page
    there.parent.mkdir(parents=True, exist_ok=True)
    there.write_text(f"{ours.read_text('utf-8') if ours.exists() else ''}\n{more}", "utf-8")
    return root


RULE = '[[policy.rules]]\nname = "bad"\neffect = "allow"\ndoor = "tool"\n'
INDENTED = "1. Like this:\n\n   ```toml\n   " + RULE.replace("\n", "\n   ") + "\n   ```\n"
HERE = "README.md"
REMOVES = "rm x"


@pytest.mark.req("H-7", "Y-4")
@pytest.mark.parametrize(("page", "more"), [
    (HERE, f"```toml\n{RULE}```\n"),
    ("docs/how-to/telegram.md", f"~~~ini title=x\n{RULE}~~~\n"),
    ("docs/decisions/0001-new.md", INDENTED),
    ("docs/new/page.md", f'> ```toml\n> {RULE.replace(chr(10), chr(10) + "> ")}\n> ```\n'),
    ("docs/tutorial.md", f'```toml\n{RULE}words = ["ls **", "{REMOVES}"]\nshell = ["pipe"]\n```\n'),
    ("docs/tutorial.md", f'```toml\n{RULE}person = "user:ann"\nhours = "09:00-18:00"\nagent = ["x", "y"]\n```\n'),
    ("deploy/README.md", '```json\n{"rules": [{"name": "bad", "effect": "allow", "door": "tool"}]}\n```\n'),
    (HERE, f'Type `interlock approve @last --always rule --words="{REMOVES}"` and go on.\n'),
    (HERE, f'Write `words = ["{REMOVES}"]` and go on.\n'),
    (HERE, f'| refused | write |\n|---|---|\n| `command = "ls.*"` | `words = "{REMOVES}"` |\n'),
], ids=["toml", "another fence", "indented", "quoted", "words", "narrow", "json", "typed", "sentence", "table"])
def test_an_invalid_rule_on_a_page_is_detected(tmp_path: Path, page: str, more: str) -> None:
    found = attack([REMOVES, *hostile_commands()[::EVERY]], *of_docs(planted(tmp_path, page, more)))
    assert [one for one in found.passed_hostile if one.startswith(f"docs {page} ")]
    assert not found.passed, "it prints FAILED and ends with 1"


@pytest.mark.parametrize(("more", "why"), [
    (f"```toml\n{RULE}command = 'git (status|diff)( .*)?'\n```\n", 'README.md:5: "command" in [policy.rules]'),
    (f"```text\n{RULE}= 7\n```\n", "not TOML"),
    (f'```toml\n{RULE}until = "2020-01-01T00:00:00Z"\n```\n', "its `until` fits no subject of this proof"),
    ('```python\nremember({"effect": "allow"})\n```\n', "not TOML"),
    ('Type `interlock approve X --always rule --command "(a"`.\n', "command"),
], ids=["refused", "broken", "of the past", "another language", "typed"])
def test_an_untestable_rule_is_reported(tmp_path: Path, more: str, why: str) -> None:
    tested, [sentence] = of_docs(planted(tmp_path, HERE, more))
    assert sentence.startswith(HERE)
    assert why in sentence
    assert not attack([], tested, [sentence]).passed


@pytest.mark.parametrize("planted", [
    "`rm **` is refused.", '| refused | write |\n|---|---|\n| `words = "rm x"` | `words = "ls"` |'])
def test_an_accepted_rule_that_a_page_calls_refused_is_detected(tmp_path: Path, planted: str) -> None:
    (tmp_path / HERE).write_text(planted, "utf-8")
    found = read_pages(tmp_path)
    assert len(found.unread) == 1
    assert "calls it refused, and it is a rule" in found.unread[0]


def test_no_effect_of_a_config_is_skipped() -> None:
    lines = [line for page in pages() for line in page.read_text("utf-8").splitlines()
             if line.strip().startswith("effect = ")]
    shown = [one for one in read_pages().rules if not one.origin.endswith('"') and not one.inline]
    assert len(shown) == len(lines)
