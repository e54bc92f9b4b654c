"""Facts of a program that is about to start, and their comparison with what runs (H-16)."""

from __future__ import annotations

import pytest

from interlock.box.program import (
    Image,
    Program,
    RunningProgram,
    by_env,
    is_as_allowed,
    reaching,
    shebang,
)


@pytest.mark.req("H-16")
@pytest.mark.parametrize(("head", "words"), [
    (b"#!/bin/sh\necho", (b"/bin/sh",)),
    (b"#! /usr/bin/env  node --x \nrest", (b"/usr/bin/env", b"node --x")),
    (b"#!/bin/sh\t-e\n", (b"/bin/sh", b"-e")),
    (b"#!\n", ()), (b"\x7fELF", ()), (b"", ()),
])
def test_a_script_is_parsed_as_in_the_kernel(head: bytes, words: tuple[bytes, ...]) -> None:
    assert shebang(head) == words


@pytest.mark.req("H-16")
def test_only_a_plain_env_continues_with_a_second_program() -> None:
    assert by_env((b"/usr/bin/env", b"node")) == (b"node",)
    assert by_env((b"/usr/bin/env", b"-S node --x")) == (b"node", b"--x")
    assert by_env((b"/usr/bin/env", b"-i sh")) == by_env((b"/usr/bin/env", b"A=b sh")) == by_env((b"/bin/sh",)) == ()


@pytest.mark.req("H-16")
def test_variables_beyond_the_command_line_are_found() -> None:
    base = {b"PATH": b"/opt/bin:/usr/bin", b"LD_LIBRARY_PATH": b"/opt/lib"}

    def found(*environment: bytes) -> tuple[bytes, ...]:
        return reaching(environment, base)

    assert found(b"LD_PRELOAD=/tmp/x.so", b"HOME=/x") == (b"LD_PRELOAD=/tmp/x.so",)
    assert found(b"GIT_SSH_COMMAND=sh x", b"PYTHONPATH=/tmp") == (b"GIT_SSH_COMMAND=sh x", b"PYTHONPATH=/tmp")
    assert found(b"BASH_FUNC_ls%%=() {  evil; }") == (b"BASH_FUNC_ls%%=() {  evil; }",)
    assert found(b"PATH=/tmp/evil:/usr/bin") == (b"PATH=/tmp/evil:/usr/bin",)
    assert found(b"PATH=/usr/local/bin:/usr/bin:/bin", b"LD_LIBRARY_PATH=/opt/lib", b"GIT_PAGER=cat") == ()


def program(path: bytes, *argv: bytes, image: Image) -> Program:
    return Program(path, argv, b"/", path, (), image)


def runs(inode: int, line: bytes, directory: bytes = b"/", *environment: bytes) -> RunningProgram:
    return RunningProgram((1, inode), line, directory, environment)


@pytest.mark.req("H-16")
def test_the_allowed_file_runs_with_the_allowed_arguments() -> None:
    ls = program(b"/bin/ls", b"ls", b"-l", image=Image(1, 7))

    assert is_as_allowed(ls, runs(7, b"ls\0-l\0"))
    assert not is_as_allowed(ls, runs(8, b"ls\0-l\0"))
    assert not is_as_allowed(ls, runs(7, b"ls\0-la\0"))
    assert not is_as_allowed(ls, runs(7, b"ls\0-l\0x\0"))
    assert not is_as_allowed(ls, runs(7, b""))


@pytest.mark.req("H-16")
def test_the_allowed_directory_and_variables_are_used() -> None:
    ls = program(b"/bin/ls", b"ls", image=Image(1, 7))._replace(environment=(b"LD_PRELOAD=shown.so",))

    assert is_as_allowed(ls, runs(7, b"ls\0", b"/", b"LD_PRELOAD=shown.so"))
    assert not is_as_allowed(ls, runs(7, b"ls\0", b"/etc", b"LD_PRELOAD=shown.so"))
    assert not is_as_allowed(ls, runs(7, b"ls\0", b"/", b"LD_PRELOAD=other.so"))
    assert not is_as_allowed(ls, runs(7, b"ls\0", b"/", b"LD_PRELOAD=shown.so", b"BASH_ENV=x"))
    assert not is_as_allowed(ls, runs(7, b"ls\0"))


@pytest.mark.req("H-16")
def test_a_script_runs_as_its_interpreter_with_its_own_path_and_arguments() -> None:
    script = program(b"./run", b"run", b"a", image=Image(1, 7, (b"/bin/sh", b"-e"), (1, 9)))

    assert is_as_allowed(script, runs(9, b"/bin/sh\0-e\0./run\0a\0"))
    assert not is_as_allowed(script, runs(7, b"/bin/sh\0-e\0./run\0a\0"))
    assert not is_as_allowed(script, runs(9, b"/bin/sh\0-e\0./run\0b\0"))
    assert not is_as_allowed(script, runs(9, b"/bin/sh\0-c\0evil\0a\0"))
