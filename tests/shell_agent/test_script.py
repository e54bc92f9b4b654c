"""What a prompt asks for, and the sentences about it."""

from __future__ import annotations

import pytest

from interlock.shell_agent import script


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("ls", ["ls"]),
        (
            "\n  make  \n\n# a comment\n   # another\ntest -f x # not a comment of ours\n",
            ["make  ", "test -f x # not a comment of ours"],
        ),
        ("echo a \\\n  b\nls", ["echo a   b", "ls"]),
        ("echo one\\\\\necho two", ["echo one\\\\", "echo two"]),
        ("echo a \\\n# part of the line", ["echo a # part of the line"]),
        ("echo last \\", ["echo last "]),
        ("echo a\r\necho b\r\n", ["echo a", "echo b"]),
        ("printf 'a\u2028b\x0bc'", ["printf 'a\u2028b\x0bc'"]),
        ("# ends in a backslash \\\nls", ["ls"]),
    ],
)
def test_lines_become_commands(text: str, commands: list[str]) -> None:
    assert script.parse(text) == commands


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The prompt contains no command"),
        ("# only this\n\n", "The prompt contains no command"),
        ("\\\n\\\n", "The prompt contains no command"),
        ("ls\necho a\0b", "Line 2 of the prompt contains a NUL character"),
        ("true\n" * 1_001, "The prompt contains 1001 commands, more than 1000"),
    ],
)
def test_a_script_that_cannot_run_is_refused_with_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(script.ScriptRefused, match=sentence):
        script.parse(text)


def test_an_end_is_described_in_plain_words() -> None:
    assert script.ending(0, None) == "succeeded"
    assert script.ending(7, None) == "failed with exit status 7"
    assert script.ending(None, 9) == "was ended by signal 9 (SIGKILL)"
    assert script.ending(None, 40) == "was ended by signal 40 (real-time signal 40)"


def test_the_stop_names_the_commands_that_did_not_run() -> None:
    assert script.stopped(3, 3, "failed with exit status 7", "false") == (
        "command 3 of 3 failed with exit status 7: false"
    )
    assert script.stopped(2, 3, "was not allowed", "rm x") == (
        "command 2 of 3 was not allowed, and 1 more was not run: rm x"
    )
    assert script.stopped(1, 3, "was not allowed", "rm x").endswith("and 2 more were not run: rm x")


def test_a_long_command_is_truncated_in_quotes() -> None:
    assert len(script.shown("x" * 1_000)) == script.SHOWN_COMMAND_CHARS
    assert script.shown("x" * script.SHOWN_COMMAND_CHARS) == "x" * script.SHOWN_COMMAND_CHARS
