"""Help: quick, examples first, every verb there."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from interlock.cli.verbs import build, names

HELP_TO_PARSER = 2.5
"""Most processor time of `--help`, as a multiple of what importing its parser alone costs on the same machine."""
ROUNDS = 5


def cpu_of(*words: str) -> tuple[float, str]:
    """Run Python with these words; returns its processor time in seconds and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ran.stdout


@pytest.mark.req("G-7")
def test_help_costs_little_more_than_importing_its_parser() -> None:
    # A ratio, because seconds depend on the machine and its load. Both are measured in turn, so that load that comes
    # or goes meets both alike, and the best of each counts.
    both = [(cpu_of("-m", "interlock", "--help")[0], cpu_of("-c", "import cyclopts")[0]) for _ in range(ROUNDS)]
    help_s, parser_s = (min(times) for times in zip(*both, strict=True))
    assert help_s <= HELP_TO_PARSER * parser_s


@pytest.mark.req("G-7")
def test_help_begins_with_examples_and_names_every_verb() -> None:
    _, out = cpu_of("-m", "interlock", "--help")
    assert out.startswith("Examples:\n  interlock demo\n")
    assert all(name in out for name in names())
    assert "Exit status: 0 done" in out


@pytest.mark.req("G-7")
@pytest.mark.parametrize("name", names())
def test_every_verb_has_help_that_begins_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    build()([name, "--help"])
    assert capsys.readouterr().out.startswith("Examples:\n  interlock " + name)


@pytest.mark.req("G-7")
def test_help_imports_no_verb_and_nothing_heavy() -> None:
    code = ("import sys, contextlib, io\nfrom interlock.cli.dispatch import dispatch\n"
            "with contextlib.redirect_stdout(io.StringIO()): dispatch(['--help'])\n"
            "print([m for m in ('httpx2', 'asyncio.tasks', 'apsw', 'acp', 'starlette', 'interlock.app.gateway', "
            "'interlock.app.runner', 'interlock.config', 'interlock.cli.tasks.run') if m in sys.modules])")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
