"""The paths of a request are resolved as they lead now: what a link hides is what policy judges."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from interlock.ports.agent import AgentQuestion
from interlock.runner import links
from interlock.runner.links import resolved_paths

pytestmark = pytest.mark.anyio


def question(**given: object) -> AgentQuestion:
    return AgentQuestion(None, "write", "write", msgspec.json.encode(given), [])


@pytest.mark.req("H-6")
async def test_a_link_is_mapped_to_the_file_behind_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    found = await resolved_paths(question(path="link/notes.txt"), str(tmp_path))

    assert found == {"link/notes.txt": str((tmp_path / "real/notes.txt").resolve())}


async def test_a_path_that_is_what_it_says_is_left_out(tmp_path: Path) -> None:
    real = tmp_path.resolve()
    (real / "plain.txt").touch()

    assert await resolved_paths(question(path="plain.txt"), str(real)) == {}


async def test_a_link_among_the_words_of_a_command_is_found(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")

    found = await resolved_paths(question(command="cat out/passwd"), str(tmp_path.resolve()))

    assert found["out/passwd"] == "/etc/passwd"


async def test_a_path_that_cannot_be_resolved_is_left_to_its_text(tmp_path: Path) -> None:
    found = await resolved_paths(question(path="~no-such-user-here/x"), str(tmp_path.resolve()))

    assert found == {}


async def test_so_many_paths_are_resolved_and_the_rest_are_judged_by_their_text(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_LINKS", 2)
    real = tmp_path.resolve()
    for name in "abc":
        (real / name).symlink_to("/etc")

    found = await resolved_paths(question(command="cat a/x b/x c/x"), str(real))

    assert len(found) == 2
