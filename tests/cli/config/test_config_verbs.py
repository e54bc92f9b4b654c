"""`interlock config check|show|path`: mistakes with their place, settings without secrets, and the file's path."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from interlock.cli.config.config_verbs import check, path, show
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus

pytestmark = pytest.mark.req("G-1")


@pytest.fixture
def where(tmp_path: Path) -> Where:
    tmp_path.chmod(0o700)
    return Where(state=tmp_path)


def written(where: Where, text: str) -> Path:
    file = where.directory() / "interlock.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_a_missing_file_is_not_a_mistake(where: Where, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(where=where) == path(where=where) == ExitStatus.DONE
    out, err = capsys.readouterr()

    assert "does not exist, so everything is as shipped" in out
    assert out.endswith("interlock.toml\n")
    assert "does not exist yet" in err


def test_each_mistake_is_a_line_and_sets_the_exit_status(where: Where, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(where, "[gateway]\nport = 99999\n")

    assert check(where=where) == ExitStatus.USAGE
    assert f"{file}:2: " in capsys.readouterr().out
    assert check(json=True, where=where) == ExitStatus.USAGE
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["ok"], found["file"], len(found["mistakes"])) == (False, str(file), 1)


def test_a_rule_that_allows_any_input_of_its_tools_gets_a_remark(
        where: Where, capsys: pytest.CaptureFixture[str]) -> None:
    written(where, '[[policy.rules]]\nname = "wide"\ntool = ["shell"]\neffect = "allow"\n')

    assert check(where=where) == ExitStatus.DONE
    assert "the rule wide allows any input of the tools that it names" in capsys.readouterr().err


def test_an_expression_that_looks_like_a_glob_gets_a_remark(
        where: Where, capsys: pytest.CaptureFixture[str]) -> None:
    written(where, '[[policy.rules]]\nname = "echoes"\ncommand = "echo *"\neffect = "allow"\n')

    assert check(where=where) == ExitStatus.DONE
    assert "the rule echoes: command = 'echo *' is a regular expression" in capsys.readouterr().err


def test_the_effective_config_is_shown_as_toml_and_as_json(where: Where, capsys: pytest.CaptureFixture[str]) -> None:
    written(where, "[gateway]\nport = 7001\n")

    assert show(where=where) == ExitStatus.DONE
    assert "port = 7001" in capsys.readouterr().out
    assert show(json=True, where=where) == ExitStatus.DONE
    assert msgspec.json.decode(capsys.readouterr().out)["gateway"]["port"] == 7001
