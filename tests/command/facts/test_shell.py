"""Parsing of a command line: simple commands, its other parts, and what cannot be parsed (H-7)."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from interlock.command.facts.shell import LISTED, read


@pytest.mark.req("P-1", "H-7")
@pytest.mark.parametrize(("text", "commands", "marks"), [
    ("git status", [("git", "status")], set()),
    ("git diff -- 'a b' \"c d\" e\\ f", [("git", "diff", "--", "a b", "c d", "e f")], set()),
    ("a && b || c; d | e", [("a",), ("b",), ("c",), ("d",), ("e",)], {"and", "or", "sequence", "pipe"}),
    ("a\nb", [("a",), ("b",)], {"sequence"}),
    ("a 2>/dev/null >&2", [("a",)], {"null"}),
    ("a > x", [("a",)], {"write"}),
    ("a < x", [("a",)], {"read"}),
    ("a $X", [("a", "$X")], {"expansion"}),
    ("a *.py ~/x", [("a", "*.py", "~/x")], {"glob", "tilde"}),
    ("A=1 b", [("b",)], {"assignment"}),
    ("! a # b", [("a",)], {"not", "comment"}),
    ("a &", [("a",)], {"background"}),
    ("'r'm x", [("rm", "x")], set()),
])
def test_a_line_is_read_word_by_word(text: str, commands: list[tuple[str, ...]], marks: set[str]) -> None:
    line = read(text)
    assert [one.words for one in line.commands] == commands
    assert line.marks == marks
    assert line.unclear is None


@pytest.mark.req("P-1", "H-7")
@pytest.mark.parametrize("text", ["(rm x)", "{ rm x; }", "if a; then rm x; fi", "for i in 1; do rm x; done",
                                  "f() { rm x; }", "a $(rm x)", "a `rm x`", 'a "$(rm x)"', "a <(rm x)",
                                  "a <<E\n$(rm x)\nE", "a ${b:-$(rm x)}",
                                  "X=$(rm x) a", "[[ $(rm x) ]]", "a $((b[$(rm x)]))"])
def test_a_command_inside_another_construct_is_found_and_the_construct_marked(text: str) -> None:
    line = read(text)
    assert ("rm", "x") in [one.words for one in line.commands]
    assert not line.marks <= LISTED or line.unclear


@pytest.mark.req("P-1", "H-7")
@pytest.mark.parametrize("text", ["sudo -u root rm x", "env A=1 rm x", "xargs -n 1 rm x", "timeout 5 nice rm x",
                                  "bash -c 'a; rm x'",
                                  "find . -exec rm x", "eval 'a && rm x'", "/usr/bin/sudo rm x"])
def test_deny_rules_see_the_command_that_another_one_runs(text: str) -> None:
    assert ("rm", "x") in [one.words for one in read(text).inner]


@pytest.mark.req("P-1", "H-7")
@pytest.mark.parametrize("text", ["", "   ", "a 'b", 'a "b', "a\x00b", "a\x1b[2Jb", "a \ud800", "x" * 4_097, "(" * 200,
                                  "a \\\nb", "ls )"])
def test_an_unreadable_line_is_unclear(text: str) -> None:
    assert read(text).unclear


@pytest.mark.req("P-1", "H-7")
@pytest.mark.parametrize("piece", ["(", "$(", "<<", "`", '"', "${", "a=(", "a|", "if ", "a && ", "{ ", "[[ ",
                                   "bash -c "])
def test_every_line_is_parsed_in_bounded_time(piece: str) -> None:
    began = time.process_time()
    read(piece * (4_096 // len(piece)))
    assert time.process_time() - began < 2


PIECES = (
    "p", "q a", "evil", " ", "\t", "\n", ";", "&&", "||", "|", "|&", "&", "(", ")", "{", "}", "<", ">", ">>", "2>&1",
    ">/dev/null", "&>/dev/null", ">& 2", "22", "'", '"', "`", "$", "$(evil)", "`evil`", "${", "$((", "$'", "\\", "\\\n",
    "\\;", "#", " #", "!", "[[ ", " ]]", "=", "A=1 ", "*", "?", "{a,evil}", "..", "time ", "coproc ", "if ",
    " then ", " fi",
    "case x in ", "x)", ";;", "f()", "<<E", "\nE\n", "<<<", "<(evil)", "''", "'a b'", '"a\\"b"', "a\\ b", "é", "\u00a0",
    "\u2028", "\r", "\x0b", "%", "^", "-", ",", "/", "[0]", "!!", "{}", '"$(evil)"', "'$(evil)'",
)
# Each command is recorded in one write: those of a pipeline run at the same time.
RECORDER = """#!/bin/sh
entry=${0##*/}
for word; do entry="$entry$SEPARATOR$word"; done
printf '%s\\036' "$entry" > "$RECORD"
"""
LINES = 1_000


def commands_run(text: str, here: Path, surroundings: dict[str, str]) -> set[tuple[str, ...]]:
    """Run the line in a shell; return the commands it ran, also those that it left in the background."""
    reading, writing = os.pipe()
    try:
        subprocess.run(["bash", "-c", text], cwd=here, env=surroundings | {"RECORD": f"/dev/fd/{writing}"},
                       stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=30, pass_fds=(writing,))
    finally:
        os.close(writing)
        with open(reading, encoding="utf-8") as record:
            entries = record.read()
    return {tuple(one.split("\x1f")) for one in entries.split("\x1e") if one}


@pytest.mark.req("H-7")
def test_a_line_read_as_plain_is_run_as_read_by_a_shell(tmp_path: Path) -> None:
    here, programs = tmp_path / "here", tmp_path / "programs"
    here.mkdir()
    programs.mkdir()
    for name in ("p", "q", "evil"):
        (programs / name).write_text(RECORDER)
        (programs / name).chmod(0o755)
    surroundings = {"PATH": f"{programs}:{os.environ['PATH']}", "SEPARATOR": "\x1f"}
    dice, plain, recorded = random.Random(7), 0, 0

    for _ in range(LINES):
        text = "p" + "".join(dice.choice(("", " ")) + dice.choice(PIECES) for _ in range(dice.randint(1, 6)))
        line = read(text)
        if line.unclear is not None or not line.marks <= LISTED or "tilde" in line.marks:
            continue
        plain += 1
        ran = commands_run(text, here, surroundings)
        recorded += len(ran)
        assert ran <= {one.words for one in line.commands}, text
        assert not list(here.iterdir()), text

    assert plain > 50
    assert recorded > 50
