"""`interlock policy use`: the config names its presets, and is otherwise unchanged (Y-4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock import config
from interlock.cli.config.place import Where
from interlock.cli.policy.presets import use_presets, with_presets
from interlock.cli.verb_error import Trouble

RULE = '[[policy.rules]]\nname = "mine"\neffect = "deny"\n'


@pytest.mark.parametrize(("before", "after"), [
    ("", '[policy]\nuse = ["edits"]\n'),
    ("# mine\n[gateway]\nport = 0\n", '# mine\n\n[policy]\nuse = ["edits"]\n\n[gateway]\nport = 0\n'),
    (RULE, f'[policy]\nuse = ["edits"]\n\n{RULE}'),
    ('[policy]\nuse = ["ci"] # why\n\n' + RULE, f'[policy]\nuse = ["edits"]\n\n{RULE}'),
    ("[policy]\n\n" + RULE, f'[policy]\nuse = ["edits"]\n\n{RULE}'),
    ('[a]\nuse = ["x"]\n[policy]\n', '[a]\nuse = ["x"]\n[policy]\nuse = ["edits"]\n'),
])
def test_the_file_changes_in_one_place(before: str, after: str) -> None:
    assert with_presets(before, ["edits"]) == after
    assert with_presets(after, ["edits"]) == after


@pytest.mark.req("P-1", "G-1", "Y-4")
def test_presets_follow_the_files_own_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / config.FILE_NAME
    file.write_text(RULE)
    assert use_presets(("ci", "readonly"), Where(state=tmp_path)) == 0
    assert str(file) in capsys.readouterr().out
    names = [rule.name for rule in config.load(file).policy.in_force]
    assert names[:2] == ["mine", "readonly: ask before secrets"]
    assert use_presets(("none",), Where(state=tmp_path)) == 0
    assert [rule.name for rule in config.load(file).policy.in_force] == ["mine"]


@pytest.mark.parametrize(("names", "text", "sentence"), [
    ((), "", "No preset is named"), (("fast",), "", "no preset 'fast'"), (("none", "ci"), "", "no preset 'none'"),
    (("ci",), "[policy]\nuse = 7\n", "use"), (("ci",), RULE.replace("deny", "maybe"), "invalid enum value"),
])
def test_a_mistake_changes_nothing(tmp_path: Path, names: tuple[str, ...], text: str, sentence: str) -> None:
    file = tmp_path / config.FILE_NAME
    file.write_text(text)
    with pytest.raises(Trouble, match=sentence):
        use_presets(names, Where(state=tmp_path))
    assert file.read_text() == text
