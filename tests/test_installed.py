"""A test whose needs are absent is skipped with the remedy, and fails if the machine must have everything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import installed


@pytest.fixture(params=sorted(installed.FINDERS))
def absent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an installation that cannot be found."""
    _, remedy = installed.FINDERS[request.param]
    monkeypatch.setitem(installed.FINDERS, request.param, (lambda: None, remedy))
    return request.param


def test_an_absent_installation_skips_with_one_line(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(installed.CI_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"^{absent} is not installed: [^\n]+$"):
        installed.require(absent)


def test_an_absent_installation_fails_if_every_installation_is_required(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(installed.CI_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match=f"^{absent} is not installed: "):
        installed.require(absent)


@pytest.mark.parametrize(("variable", "find"), [
    ("INTERLOCK_TEST_GOOSE", installed.find_goose), ("INTERLOCK_TEST_PI", installed.find_pi),
    ("INTERLOCK_TEST_ASYNCAPI", installed.find_asyncapi), ("INTERLOCK_TEST_NODE_MODULES", installed.find_llm_bridge),
])  # fmt: skip
def test_a_named_path_without_the_installation_is_not_replaced(
    variable: str, find: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    assert callable(find)
    assert find() is None


def test_an_empty_path_finds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    finders = (installed.find_node, installed.find_gemini, installed.find_pi, installed.find_llm_bridge)
    assert [find() for find in finders] == [None] * 4


@pytest.mark.usefixtures("goose")
def test_a_fixture_declares_the_installation_it_needs(request: pytest.FixtureRequest) -> None:
    assert [mark.args for mark in request.node.iter_markers("needs")] == [("goose",)]


PLAIN = "raise OSError('read')\n"
MARKED = "import pytest\n\n@pytest.mark.long\ndef test_one(): pass\n"
HELPER = "import pytest\n\nslow = pytest.mark.long\n"
MARKED_ELSEWHERE = "from helper import slow\n\n@slow\ndef test_one(): pass\n"


def collected(place: Path, files: dict[str, str], *arguments: str) -> str:
    """What pytest prints that reads these files."""
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")
    paths = os.pathsep.join([str(place), str(Path(__file__).parent)])
    run = subprocess.run([sys.executable, "-m", "pytest", "-p", "installed", "-p", "no:xdist", "--collect-only", "-q",
                          "-c", os.devnull, "--rootdir", str(place), *arguments],
                         cwd=place, env={**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                         capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


def test_a_run_for_marked_tests_alone_reads_no_file_without_a_mark(tmp_path: Path) -> None:
    printed = collected(tmp_path, {"test_plain.py": PLAIN, "test_marked.py": MARKED}, "-m", "needs or long")
    assert "test_marked.py::test_one" in printed
    assert "test_plain.py" not in printed


@pytest.mark.parametrize("arguments", [(), ("-m", "needs or not long"), ("-m", "needs", "test_plain.py")])
def test_every_other_file_is_read(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert "ERROR test_plain.py - OSError: read" in collected(tmp_path, {"test_plain.py": PLAIN}, *arguments)


def test_a_mark_from_another_file_is_refused(tmp_path: Path) -> None:
    printed = collected(tmp_path, {"helper.py": HELPER, "test_hidden.py": MARKED_ELSEWHERE})
    assert "ERROR: test_hidden.py::test_one is marked needs or long from elsewhere: put the mark into" in printed
