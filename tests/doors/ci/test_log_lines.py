"""A pipeline's log: text of an agent is never a command of the CI system (O-10)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.doors.ci.log_lines import BAR, MAX_BLOCK_LINES, MAX_LINE_CHARS, LogWriter, block, phrase

pytestmark = pytest.mark.req("O-10")
ATTACKS = [
    "::error::x", "  ::error::x", "\t::set-output name=a::b", "\r::add-mask::1", "a\r\n::group::x", "a\n::endgroup::",
    "\u2028::error::x", "\u00a0::error::x", "\ufeff::error::x", "\x0b::error::x", "\x85::error::x",
    "::stop-commands::t",
    "##[error]x", "a ##[group]x", "###[error]x", "##\u200b[error]x", "##[set-env name=PATH]x",
    "##vso[task.setvariable variable=a]b", "##VSO[task.complete result=Failed;]", "##teamcity[buildStop]",
    "\x1b[0Ksection_start:1:x\r\x1b[0Kx", "--- section", "+++ open", "^^^ +++", "\x1b]1338;x\x07", "%0A::error::x",
]
WORDS = st.lists(st.sampled_from(["::", "##", "#", "[", "]", "error", "vso", "group", "\r", "\n", " ", "\t", "\x1b",
                                  "%", "0A", "a", "\u2028", "\u00a0", "\x0b", "\x85"]), max_size=30).map("".join)


def commands(log: str) -> list[str]:
    """What CI systems would take as a command. GitHub's runner reads a process's output by lines that end in CR, LF or
    both, trims the beginning, and takes `::name` there or `##[name` anywhere; Azure and TeamCity take `##word[`;
    GitLab's sections and Buildkite's marks need an escape character or the beginning of a line."""
    return [line for line in re.split(r"\r\n|\r|\n", log)
            if line.lstrip().startswith("::") or re.match(r"(---|\+\+\+|~~~|\^\^\^) ", line)
            or re.search(r"##[A-Za-z0-9_.-]*\[", line) or "\x1b" in line]


@pytest.mark.parametrize("text", ATTACKS)
def test_an_agents_text_is_not_a_workflow_command(text: str) -> None:
    shown = "\n".join(block(text))
    assert commands(text + "\n") or text.startswith(("\ufeff", "%", "##\u200b")) or "\x1b" in text
    assert commands(shown) == []
    assert all(line.startswith(BAR) for line in shown.split("\n"))


@given(st.one_of(WORDS, st.text(max_size=60)))
def test_no_text_at_all_is_a_workflow_command(text: str) -> None:
    assert commands("\n".join(block(text))) == []
    assert commands("x " + phrase(text)) == []


@given(st.one_of(WORDS, st.text(max_size=60)), st.sampled_from(["github", "plain"]))
def test_an_annotation_is_one_command_and_contains_no_other(text: str, style: str) -> None:
    writer = LogWriter("github" if style == "github" else "plain")
    line = writer.annotation("notice", text, text)
    assert "\n" not in line
    assert "\r" not in line
    assert len(commands(line)) == (style == "github")
    if style == "github":
        found = re.fullmatch(r"::notice title=([^:,]*)::(.*)", line)
        assert found is not None
        assert commands(found[1].replace("%3A", ":").replace("%2C", ",")) == [] or found[1].startswith("%3A%3A")
    assert "##[" not in line


@pytest.mark.parametrize(("text", "escaped"), [("50%", "50%25"), ("a: b, c", "a%3A b%2C c"), ("%0A", "%250A")])
def test_a_title_is_escaped_as_githubs_toolkit_does(text: str, escaped: str) -> None:
    assert LogWriter("github").annotation("error", text, "m") == f"::error title={escaped}::m"


def test_a_message_keeps_its_colons_and_escapes_percents() -> None:
    assert LogWriter("github").annotation("error", "t", "100%: x, y") == "::error title=t::100%25: x, y"
    assert LogWriter("plain").annotation("error", "t", "100%: x, y") == "error: t: 100%: x, y"


def test_sections_fold_on_github_and_have_a_title_elsewhere() -> None:
    assert [*LogWriter("github").opened("a%\n::endgroup::"), *LogWriter("github").closed()] == [
        "::group::a%25 ::endgroup::", "::endgroup::"]
    assert [*LogWriter("plain").opened("tool"), *LogWriter("plain").closed()] == ["== tool"]


def test_a_long_block_is_shortened_in_the_middle_and_a_long_line_is_continued() -> None:
    lines = list(block("\n".join(f"line {n}" for n in range(MAX_BLOCK_LINES + 7))))
    assert len(lines) == MAX_BLOCK_LINES + 1
    assert lines[MAX_BLOCK_LINES // 2] == "| [7 lines are left out here]"
    assert lines[-1] == f"| line {MAX_BLOCK_LINES + 6}"
    assert [len(line) for line in block("x" * (MAX_LINE_CHARS + 5))] == [MAX_LINE_CHARS + len(BAR), 5 + len(BAR)]


def test_ordinary_text_stays_unchanged() -> None:
    assert list(block("## [link](x)\n- größer 漢字\n")) == ["| ## [link](x)", "| - größer 漢字"]
