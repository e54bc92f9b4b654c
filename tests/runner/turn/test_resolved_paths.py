"""The paths of a request are resolved as they lead now: what a link hides is what policy judges."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from interlock.command.facts.request import NOT_RESOLVED
from interlock.ports.agent import AgentQuestion
from interlock.runner.turn.resolved_paths import resolved_paths

pytestmark = pytest.mark.anyio


def question(**given: object) -> AgentQuestion:
    return AgentQuestion(None, "write", "write", msgspec.json.encode(given), [])


@pytest.mark.req("H-6")
async def test_a_link_is_mapped_to_the_file_behind_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    found = await resolved_paths(question(path="link/notes.txt"), str(tmp_path))

    assert found == {"link/notes.txt": str((tmp_path / "real/notes.txt").resolve())}


async def test_a_path_that_is_already_resolved_is_left_out(tmp_path: Path) -> None:
    real = tmp_path.resolve()
    (real / "plain.txt").touch()

    assert await resolved_paths(question(path="plain.txt"), str(real)) == {}


async def test_a_link_among_a_commands_arguments_is_found(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")

    found = await resolved_paths(question(command="cat out/passwd"), str(tmp_path.resolve()))

    assert found["out/passwd"] == "/etc/passwd"


async def test_an_unresolvable_path_is_left_as_text(tmp_path: Path) -> None:
    found = await resolved_paths(question(path="~no-such-user-here/x"), str(tmp_path.resolve()))

    assert found == {}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """One with links that lead out of it."""
    real = tmp_path.resolve()
    (real / "sub").mkdir()
    for link, target in {"link": "/etc", "a link": "/etc", "deep": "/etc/ssl", "sub/inner": "/etc"}.items():
        (real / link).symlink_to(target)
    return real


@pytest.mark.req("H-6", "H-7")
@pytest.mark.parametrize("spelled", [
    "{}/link/passwd", "./link/passwd", "sub/../link/passwd", "deep/../passwd", "file://{}/link/passwd",
])
async def test_a_path_is_mapped_as_sent_in_any_spelling(workspace: Path, spelled: str) -> None:
    path = spelled.format(workspace)

    assert await resolved_paths(question(path=path), str(workspace)) == {path: "/etc/passwd"}


@pytest.mark.req("H-6", "H-7")
@pytest.mark.parametrize(("line", "word"), [
    ("cat 'a link/passwd'", "a link/passwd"), ("cat a\\ link/passwd", "a link/passwd"),
    ("cat li\\nk/passwd", "link/passwd"), ("cat 'li'nk/passwd", "link/passwd"),
    ("cat deep/../passwd", "deep/../passwd"),
    ("cd sub && cat inner/passwd", "inner/passwd"), ("cat lin?/passwd", "lin?/passwd"),
    ("cat l[a-z]nk/passwd", "l[a-z]nk/passwd"), ("cat s*/inner/passwd", "s*/inner/passwd"),
    ("grep -rflink/passwd x", "link/passwd"), ("grep x --file=link/passwd", "link/passwd"),
])
async def test_an_argument_is_mapped_as_a_shell_reads_it(workspace: Path, line: str, word: str) -> None:
    assert (await resolved_paths(question(command=line), str(workspace)))[word] == "/etc/passwd"


async def test_the_working_directory_of_a_command_is_mapped(workspace: Path) -> None:
    found = await resolved_paths(question(command="cat passwd", cwd="link"), str(workspace))

    assert found == {"link": "/etc", "passwd": "/etc/passwd"}


@pytest.mark.req("H-6", "H-7")
async def test_a_pattern_that_matches_a_secret_file_is_mapped_to_it(workspace: Path) -> None:
    for name in ("id_rsa", "notes", "sub/prod.pem"):
        (workspace / name).touch()
    (workspace / "note").symlink_to("notes")

    assert await resolved_paths(question(command="cat id_rs? no* sub/*.txt"), str(workspace)) == {
        "id_rs?": str(workspace / "id_rsa"), "no*": str(workspace / "notes")}
    assert (await resolved_paths(question(command="cat sub/p*"), str(workspace)))["sub/p*"].endswith("/sub/prod.pem")
    assert (await resolved_paths(question(command="cat i* l*"), str(workspace)))["l*"] == "/etc"


async def test_a_quoted_pattern_names_only_itself(workspace: Path) -> None:
    assert await resolved_paths(question(command="rg -g '**/*.py' 'lin?/passwd'"), str(workspace)) == {}


@pytest.mark.req("H-6", "H-7")
@pytest.mark.parametrize("line", ["ls src/**/x", "cd s* && ls", " && ".join(f"cd {at}" for at in range(5))])
async def test_a_path_with_too_many_targets_is_not_resolved(workspace: Path, line: str) -> None:
    assert NOT_RESOLVED in await resolved_paths(question(command=line), str(workspace))


@pytest.mark.req("H-6", "H-7")
async def test_the_runner_reports_paths_beyond_the_resolution_limit(
        workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.runner.turn.resolved_paths.MAX_LOOKS", 20)
    line = "cat " + " ".join(f"./{at}" for at in range(20)) + " link/passwd"

    assert NOT_RESOLVED in await resolved_paths(question(command=line), str(workspace))


@pytest.mark.req("H-6", "H-7")
async def test_a_file_system_that_does_not_answer_allows_nothing(
        workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.runner.turn.resolved_paths.WAIT_S", 0.0)

    assert await resolved_paths(question(path="link/passwd"), str(workspace)) == {NOT_RESOLVED: ""}
