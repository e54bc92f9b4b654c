"""The arguments of programs (H-7): the words that an allow rule must name letter by letter."""

from __future__ import annotations

import shlex

import pytest

from interlock.command.facts.programs import fixed_words, must_name, paths_in, program, urls_in

pytestmark = pytest.mark.req("H-7")


@pytest.mark.parametrize(("line", "named"), [
    ("ls -la src", "ls"), ("cat a b", "cat"), ("/usr/bin/ls x", "/usr/bin/ls"),
    ("sudo ls -l", "sudo ls -l"), ("env A=1 ls", "env A=1 ls"), ("bash -c x", "bash -c x"), ("xargs rm", "xargs rm"),
    ("git log --oneline", "git log"), ("git -C /x log", "git -C /x"), ("git stash pop", "git stash pop"),
    ("git log --output=x", "git log --output=x"), ("git log --outp=x", "git log --outp=x"),
    ("git diff --ext-diff", "git diff --ext-diff"), ("python x.py a", "python x.py"),
    ("python -m pytest -q a", "python -m pytest"), ("python -m pytest --rootdir=/ a", "python -m pytest --rootdir=/"),
    ("pytest -p evil", "pytest -p"), ("pytest --override-ini=x=y", "pytest --override-ini=x=y"),
    ("npm run test", "npm run test"), ("npm run", "npm run"), ("uv run pytest -p x", "uv run pytest -p"),
    ("find . -name x", "find"), ("find . -exec rm", "find -exec"), ("find . -delete", "find -delete"),
    ("find . -okdir x", "find -okdir"), ("sort -o out in", "sort -o"), ("sort in", "sort"),
    ("sed -n 1,5p f", "sed"), ("sed s/a/b/e f", "sed s/a/b/e"), ("sed -i 1p f", "sed -i"),
    ("uniq in out", "uniq out"), ("tar xf a --to-command=x", "tar xf a --to-command=x"[:3] + " --to-command=x"),
    ("make test SHELL=/x", "make test SHELL=/x"), ("make -f other", "make -f other"), ("grep -r --include=x y", "grep"),
    ("rg --pre=x y", "rg --pre=x"), ("rg --pre-glob=x y", "rg --pre-glob=x"), ("go build -o x", "go build -o"),
    ("uniq - out", "uniq out"), ("uniq -- -in out", "uniq out"), ("uniq -c in", "uniq"), ("xxd in -D", "xxd -D"),
    ("curl --cookie-jar x", "curl --cookie-jar"), ("wget -a x", "wget -a"),
    ("wget --use-askpass=x", "wget --use-askpass=x"), ("file -C", "file -C"),
    ("file --compile", "file --compile"), ("sed -n --expression=1e\\ id", "sed --expression=1e\\ id"),
    ("sed -n -l 1p '1e id' f", "sed -l"), ("sed -n --line-length 1p 1w\\ x f", "sed --line-length"),
    ("sed -n -- 1p f", "sed --"), ("sed --quiet 1p f", "sed"), ("jq .a f", "jq"),
    ("jq 'import \"../x\" as $x; $x'", "jq 'import \"../x\" as $x; $x'"),
    ("grep -rn x src", "grep"), ("grep -Rn x src", "grep -Rn"), ("grep --deref x", "grep --deref"),
    ("diff -ru a b", "diff -ru"),
    ("find src -L", "find -L"), ("rg --follow x", "rg --follow"), ("tree -l", "tree -l"),
    ("go build --o=x ./...", "go build --o=x"), ("go build -ldflags=-extld=./x", "go build -ldflags=-extld=./x"),
    ("go test -cpuprofile x", "go test -cpuprofile"), ("go test -run One -v ./pkg", "go test"),
    ("mypy --html-report x", "mypy --html-report"), ("mypy --python-executable=./x", "mypy --python-executable=./x"),
    ("mypy --python-version 3.11 src", "mypy"), ("mypy @options", "mypy @options"), ("echo @x", "echo"),
    ("pytest --pastebin=all", "pytest --pastebin=all"), ("pytest --debug x", "pytest --debug"),
    ("pytest --cov-report=xml:x", "pytest --cov-report=xml:x"), ("pytest --cov-report=term-missing", "pytest"),
    ("jest --testRunner ./x.js", "jest --testRunner"), ("jest --testPathPattern x", "jest"),
    ("ctest -T Submit", "ctest -T"), ("git log --no-ext-diff-x --name-only", "git log"),
    (f"grep -f{'x' * 300} a", f"grep -f{'x' * 300}"), ("tool -x a", "tool -x"),
    ("tool -v a", "tool"), ("echo --", "echo"), ("echo -", "echo"),
    ("python3.11 -u x.py a", "python3.11 -u x.py"), ("/opt/node20 x.js a", "/opt/node20 x.js"),
    ("bash-5.2 -c x", "bash-5.2 -c x"), ("perl5.36.0 x a", "perl5.36.0 x"), ("gcc-12 -B x", "gcc-12 -B"),
    ("gcc -Bdir a.c", "gcc -Bdir"), ("gcc -wrapper x,y a.c", "gcc -wrapper"), ("gcc -specs=x a.c", "gcc -specs=x"),
    ("gcc -Wall -O2 -c a.c", "gcc"),
    ("fakeroot ls -l", "fakeroot ls -l"), ("hyperfine ls", "hyperfine ls"), ("tool2 a b", "tool2"),
])
def test_the_words_that_a_rule_must_name_are_found(line: str, named: str) -> None:
    words = shlex.split(line)
    assert [words[at] for at in sorted(must_name(words))] == shlex.split(named)


@pytest.mark.parametrize(("line", "count"), [
    ("ls a b", 1), ("git", 1), ("git --version", 2), ("git status x", 2), ("python", 1), ("python -m x y", 3),
    ("python -m", 2), ("python -c x y", 3), ("gh pr list", 3), ("gh pr", 2), ("cargo install x", 3), ("node", 1),
])
def test_the_words_that_select_the_program_are_counted(line: str, count: int) -> None:
    assert fixed_words(line.split()) == count


@pytest.mark.parametrize(("words", "name"), [(["/bin/ls", "x"], "ls"), (["ls"], "ls"), ([], ""), (["./a/"], ""),
                                              (["/usr/bin/python3.11"], "python"), (["python3"], "python3"),
                                              (["clang++-15"], "clang++"), (["tool2"], "tool2"), (["7"], "7")])
def test_a_programs_name_is_the_part_after_the_last_slash(words: list[str], name: str) -> None:
    assert program(words) == name


@pytest.mark.parametrize(("word", "url"), [
    ("https://x.example/a", "https://x.example/a"), ("--repo=ssh://h/x", "ssh://h/x"), ("file:/etc/passwd",
     "file:/etc/passwd"), ("ext::sh -c x", "ext::sh -c x"), ("git@host:repo", "git@host:repo"), ("host.example:dir",
     "host.example:dir"), ("data:text/plain,x", "data:text/plain,x"), ("src/a.py", None), ("--flag", None),
     ("10.0.0.1:80", None),
])
def test_a_remote_location_is_found_in_a_word(word: str, url: str | None) -> None:
    assert urls_in(word) == url


@pytest.mark.parametrize(("word", "paths"), [
    ("src/a", ("src/a",)), ("--out=/tmp/x", ("/tmp/x",)), ("-I/usr", ("/usr", "usr", "sr", "r")), ("-la", ("a",)),
    ("-x~/a", ("~/a", "/a", "a")), ("--color", ()), ("--dir/x", ()), ("of=/dev/sda", ("of=/dev/sda", "/dev/sda")),
    ("a-b=c", ("a-b=c",)), ("x=", ("x=",)), ("-", ()), ("-n", ()), ("", ()),
])
def test_the_parts_of_a_word_that_may_be_paths_are_found(word: str, paths: tuple[str, ...]) -> None:
    assert paths_in(word) == paths
