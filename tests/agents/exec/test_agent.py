"""A prompt among the arguments of a program: it is text, also if it begins with a hyphen (A-3)."""

from __future__ import annotations

import argparse
import getopt
import sys
from pathlib import Path

import pytest

from interlock.agents.exec.agent import command_line
from interlock.cli.agents.known_agents import KNOWN
from interlock.ports.agent import AgentSpec
from runner.stage import stage

HYPHENS = ["--version", "-h", "-", "--", "--config=/etc/passwd", "-x\nand more", "- buy milk\n- and bread"]
PRINTS = "import argparse; a = argparse.ArgumentParser(); a.add_argument('-p', '--print', action='store_true'); " \
         "a.add_argument('--version', action='version', version='hijacked'); a.add_argument('text'); " \
         "print(a.parse_args().text)"


@pytest.mark.req("A-3")
@pytest.mark.parametrize("prompt", HYPHENS)
@pytest.mark.parametrize("configured", [[], ["-p"], ["-p", "{prompt}"], ["{prompt}"], ["--", "{prompt}"]])
def test_a_prompt_that_begins_with_a_hyphen_is_not_an_option(configured: list[str], prompt: str) -> None:
    arguments, on_input = command_line(configured, prompt)
    assert on_input == ""
    options, rest = getopt.gnu_getopt(arguments, "phx", ["version", "config="])
    assert {name for name, _ in options} <= {"-p"}
    assert [text.lstrip(" ") for text in rest] == [prompt]


@pytest.mark.req("A-3")
def test_a_prompt_that_begins_with_a_hyphen_can_be_the_value_of_an_option() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--message")
    parser.add_argument("--version", action="store_true")
    read = parser.parse_args(command_line(["--message", "{prompt}"], "--version")[0])
    assert (read.message, read.version) == (" --version", False)
    assert command_line(["--message={prompt}"], "--version")[0] == ["--message=--version"]


@pytest.mark.req("A-3")
@pytest.mark.parametrize("prompt", ["say hi", "", "a --version", " -x", "ünï\n-x"])
def test_every_other_prompt_is_passed_unchanged(prompt: str) -> None:
    assert command_line(["-p", "{prompt}"], prompt) == (["-p", prompt], "")
    assert command_line(["-p"], prompt) == (["-p", prompt], "")


@pytest.mark.anyio
@pytest.mark.req("A-3")
async def test_a_prompt_cannot_reach_the_programs_own_options(tmp_path: Path) -> None:
    agents = {"print": AgentSpec(adapter="exec", command=sys.executable, args=["-I", "-S", "-c", PRINTS, "-p"])}
    async with stage(tmp_path, agents) as scene:
        await scene.open("print")
        assert (await scene.turn("--version")).payload.stop_reason == "end_turn"
        assert scene.text().strip() == "--version"


def test_codex_never_takes_a_prompt_for_a_subcommand() -> None:
    codex = next(one for one in KNOWN if one.agent_id == "codex")
    assert command_line(list(codex.args), "resume")[0] == ["exec", "--", "resume"]
