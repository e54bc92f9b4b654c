"""Programs and files that git's settings have it run or read (H-17)."""

from __future__ import annotations

import pytest

from interlock.agents.git_programs import GitPrograms, GitSetting, new_programs, settings

pytestmark = pytest.mark.req("H-17", "H-13")
TOP = "/srv/work"


def programs(**values: str) -> GitPrograms:
    """Settings, each `section__variable` or `section__name__variable`."""
    return GitPrograms(listed(**values), TOP, "/home/ada")


def listed(**values: str) -> list[GitSetting]:
    return [GitSetting(key.replace("__", "."), value, f"{TOP}/.git") for key, value in values.items()]


@pytest.mark.parametrize(("key", "value"), [
    ("core__hookspath", "tools"), ("core__hookspath", "/srv/work/tools/"), ("core__hookspath", "TOOLS"),
    ("core__fsmonitor", "./tools/x.py"), ("core__sshcommand", "ssh -o ProxyCommand=x -F tools/x.py"),
    ("diff__external", "python3 tools/x.py"), ("filter__a__clean", "tools/x.py %f"),
    ("filter__a__process", "tools/x.py"),
    ("diff__a__textconv", "tools/x.py"), ("merge__a__driver", "tools/x.py %O %A %B"), ("alias__co", "!tools/x.py"),
    ("alias__co", "!f() { ./tools/x.py; }; f"), ("pager__log", "tools/x.py"), ("credential__helper", "!tools/x.py"),
    ("credential__https://a.example.com__helper", "/srv/work/tools/x.py"), ("include__path", "../tools/x.py"),
    ("includeif__onbranch:main__path", "../tools/x.py"), ("gpg__ssh__program", "tools/x.py"),
    ("submodule__a__update", "!tools/x.py"), ("init__templatedir", "tools"),
])
def test_a_file_named_by_a_git_program_setting_counts(key: str, value: str) -> None:
    assert programs(**{key: value}).why("/srv/work/tools/x.py")
    assert programs(**{key: value}).why("/srv/work/other/x.py") is None


@pytest.mark.parametrize(("key", "value"), [
    ("alias__co", "checkout tools/x.py"), ("core__fsmonitor", "true"), ("pager__log", "false"),
    ("core__hookspath", ""), ("core__hookspath", "/dev/null"), ("commit__template", "tools/x.py"),
    ("user__name", "tools/x.py"), ("submodule__a__update", "merge"),
])
def test_a_file_that_no_program_setting_names_does_not_count(key: str, value: str) -> None:
    assert programs(**{key: value}).why("/srv/work/tools/x.py") is None


def test_a_link_that_replaces_a_directory_above_it_counts() -> None:
    for key, value in (("core__hookspath", "a/hooks"), ("core__fsmonitor", "a/x"), ("include__path", "../a/x")):
        assert programs(**{key: value}).why("/srv/work/a", "link")
        assert programs(**{key: value}).why("/srv/work/a", "file") is None


def test_attributes_that_enable_a_driver_with_a_program_count() -> None:
    found = programs(filter__lfs__clean="git-lfs clean -- %f", diff__pdf__textconv="pdftotext",
                     merge__ours__driver="true", filter__empty__required="true")

    assert found.switched_on("", "*.bin filter=lfs -text\n") == (
        "it has git run the program of filter.lfs.clean on files that it names")
    assert found.switched_on("", "*.pdf diff=pdf")
    assert found.switched_on("", "a merge=ours")
    assert found.switched_on("*.bin filter=lfs\n", "*.bin filter=lfs\n*.txt text\n") is None
    assert found.switched_on("", "# *.bin filter=lfs\n*.x filter=empty diff=python\n*.y -filter\n") is None


def test_new_settings_that_run_programs_are_named() -> None:
    before = listed(alias__st="!git status", user__name="ada")
    after = [*before, *listed(alias__co="!x", core__hookspath="tools", include__path="x", user__email="a@example.com")]

    assert new_programs(before, after) == (
        "git reads it, and it sets what git runs: alias.co, core.hookspath, include.path")
    assert new_programs(after, before) is None
    assert str(new_programs([], listed(**{f"alias__a{one}": "!x" for one in range(7)}))).endswith("alias.a4 and 2 more")


def test_a_key_that_an_agent_wrote_is_shown_short_and_without_control_characters() -> None:
    hostile = GitSetting("filter.\x1b[2J\u202e\udcff" + "x" * 100_000 + ".clean", "./run", TOP)
    found = GitPrograms([hostile], TOP, "/home/ada")
    drivers = found.switched_on("", f"* filter={hostile.parts[1]}")

    for why in (new_programs([], [hostile]), found.why(f"{TOP}/run"), drivers):
        assert why is not None
        assert why.isprintable()
        assert "filter.?[2J??xxx" in why
        assert len(why.encode()) < 250


def test_git_output_is_read_with_the_base_of_relative_paths() -> None:
    printed = (b"file:.git/config\0core.fsmonitor\nx\ny\0command line:\0safe.directory\n*\0"
               b"file:/home/ada/.gitconfig\0a.b\0")

    assert settings(printed, TOP, origins=True) == [
        GitSetting("core.fsmonitor", "x\ny", "/srv/work/.git"), GitSetting("safe.directory", "*", TOP),
        GitSetting("a.b", "", "/home/ada")]
    assert settings(b"a.b.c\nd\0", TOP) == [GitSetting("a.b.c", "d", TOP)]
    assert settings(b"", TOP, origins=True) == []
