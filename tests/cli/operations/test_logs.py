"""The last lines of the logs of `interlock up`, and what comes after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.config.place import Where
from interlock.cli.dispatch import dispatch
from interlock.cli.operations import logs as verb
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("Y-8")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/gateway.log").write_text("".join(f"gateway {number}\n" for number in range(100)))
    (tmp_path / "logs/runner.log").write_text("runner 0\nrunner \x1b[31m1\n")
    return tmp_path


def test_the_last_lines_of_each_log_are_shown(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb.logs(lines=2, where=Where(state=state)) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[:3] == ["gateway 98", "gateway 99", "runner 0"]
    assert "── gateway" in captured.err


def test_one_log_is_shown_by_its_name(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb.logs("runner", where=Where(state=state))
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "runner 0"
    assert "gateway" not in captured.out + captured.err


@pytest.mark.parametrize(("part", "sentence"), [("gatway", "Name one of: gateway, runner."), ("../x", "no log")])
def test_an_unknown_name_is_refused_with_the_existing_ones(state: Path, part: str, sentence: str) -> None:
    with pytest.raises(Trouble) as refused:
        verb.logs(part, where=Where(state=state))
    assert sentence in refused.value.line()


def test_without_logs_one_sentence_names_their_writer(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="There are no logs"):
        verb.logs(where=Where(state=tmp_path))


def test_a_log_is_followed_through_a_rotation_until_ctrl_c(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = state / "logs/runner.log"
    steps = [lambda: log.write_bytes(log.read_bytes() + b"runner 2\nhal"), lambda: log.write_bytes(b"begun again\n")]

    def rest(_seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(verb.time, "sleep", rest)
    assert dispatch(["logs", "runner", "--follow", "--lines", "1", "--state", str(state)]) == 130
    assert capsys.readouterr().out.splitlines()[1:] == ["runner 2", "begun again"]
