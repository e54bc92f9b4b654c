"""What programs do with their arguments, as far as an allow rule depends on it (H-7).

A rule's wildcard matches plain arguments. The rule must name literally each word that makes a program run another one,
write elsewhere or leave the workspace. The tables err on the side of asking.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

CHANGE_DIRECTORY = frozenset({"cd", "pushd", "popd"})
RUNNERS = frozenset({
    ".", "at", "bash", "batch", "builtin", "bunx", "busybox", "bwrap", "catchsegv", "cgexec", "chpst", "chronic",
    "chroot", "chrt", "command", "coproc", "crontab", "csh", "dash", "dbus-run-session", "doas", "docker",
    "eatmydata", "entr", "env", "eval", "exec", "expect", "fakechroot", "fakeroot", "faketime", "firejail", "fish",
    "flock", "gdb", "hyperfine", "ionice", "ksh", "kubectl", "lldb", "ltrace", "mksh", "nerdctl", "nice", "nodemon",
    "nohup", "npx", "nsenter", "numactl", "parallel", "pdsh", "perf", "pipx", "pkexec", "podman", "prlimit",
    "proot", "proxychains", "proxychains4", "pwsh", "rbash", "rr", "rsync", "run-parts", "runcon", "runuser", "scp",
    "screen", "script", "sem", "setarch", "setpriv", "setsid", "sftp", "sg", "sh", "source", "ssh", "sshpass",
    "start-stop-daemon", "stdbuf", "strace", "su", "sudo", "systemd-run", "taskset", "tcsh", "time", "timeout",
    "tmux", "torify", "torsocks", "toybox", "trap", "unbuffer", "unshare", "uvx", "valgrind", "watch", "watchexec",
    "xargs", "xterm", "xvfb-run", "zsh",
})
"""Programs that run their arguments: a rule names every word after them."""
SHELLS = frozenset({
    "at", "bash", "batch", "builtin", "busybox", "command", "csh", "dash", "env", "eval", "exec", "fish", "ksh",
    "mksh", "nice", "nohup", "parallel", "pwsh", "rbash", "script", "sh", "ssh", "su", "sudo", "tcsh", "time",
    "timeout", "trap", "watch", "xargs", "zsh",
})
"""Programs with a single argument that may be a complete command line; deny rules parse it as one."""
INTERPRETERS = frozenset({
    "awk", "bc", "bun", "dc", "deno", "ed", "elixir", "emacs", "erl", "ex", "gawk", "ghci", "groovy", "guile",
    "irb", "java", "jshell", "julia", "lua", "luajit", "m4", "mawk", "mysql", "nano", "nawk", "node", "nodejs",
    "nvim", "ocaml", "octave", "osascript", "perl", "php", "psql", "pypy", "pypy3", "python", "python2",
    "python3", "R", "Rscript", "ruby", "runghc", "scala", "sqlite3", "swift", "tclsh", "ts-node", "tsx", "uv",
    "vi", "vim", "wish",
})
"""Programs whose first operand is code: a rule names every word up to it."""
DISPATCHERS = frozenset({
    "apt", "apt-get", "asdf", "aws", "az", "brew", "bundle", "cargo", "composer", "conda", "dnf", "gcloud", "gem",
    "gh", "git", "glab", "go", "gradle", "hatch", "helm", "hg", "ip", "jj", "just", "launchctl", "make", "mise",
    "mvn", "nix", "nox", "npm", "pdm", "pip", "pip3", "pixi", "pnpm", "poetry", "rake", "rustup", "rye", "snap",
    "svn", "systemctl", "task", "terraform", "tox", "yarn", "yum",
})
"""Programs whose first operand determines what they do: a rule names every word up to it."""
_SCRIPTED = frozenset({
    ("bun", "run"), ("bundle", "exec"), ("cargo", "install"), ("conda", "run"), ("deno", "run"), ("gh", "issue"),
    ("gh", "pr"), ("gh", "repo"), ("gh", "run"), ("git", "bisect"), ("git", "config"), ("git", "remote"),
    ("git", "stash"), ("git", "submodule"), ("git", "worktree"), ("go", "run"), ("go", "tool"), ("hatch", "run"),
    ("npm", "exec"), ("npm", "run"), ("pdm", "run"), ("pixi", "run"), ("pnpm", "exec"), ("pnpm", "run"),
    ("poetry", "run"), ("rye", "run"), ("uv", "run"), ("yarn", "run"),
})
"""Two words after which a third determines what is done."""

_LONG = frozenset({
    "basetemp", "cache-dir", "chdir", "command", "compress-program", "conf", "confcutdir", "config", "config-env",
    "config-file", "cwd", "delete", "directory", "editor", "eval", "exec", "exec-batch", "exec-path", "execdir",
    "ext-diff", "extern", "extra-index-url", "fake-super", "files0-from", "fls", "fprint", "fprint0", "fprintf",
    "from-file", "git-dir", "hook", "hostname-bin", "ignore-scripts", "import", "in-place", "include",
    "index-url", "init-file", "install-types", "inplace", "interpreter", "junit-xml", "junitxml", "load", "log-file",
    "manifest-path", "modfile", "no-index", "node-options", "ok", "okdir", "open-files-in-pager", "out",
    "out-dir", "outDir", "outfile", "output", "output-dir", "output-file", "overlay", "override-ini", "pager",
    "pdbcls", "plugin", "plugins", "pre", "preload", "prepend-path", "print-command", "rc", "rcfile",
    "receive-pack", "registry", "require", "resolve-plugins-relative-to", "root", "rootdir", "rsh", "rsh-command",
    "rulesdir", "script", "script-shell", "shell", "ssh", "target-dir", "template", "textconv", "to-command",
    "toolexec", "trust", "unsafe", "upload-pack", "use-compress-program", "userconfig", "vettool", "work-tree",
})
"""Long options of any program that run, load, write or access other places. Abbreviations also count: `--outp`."""
_GREP = frozenset({"dereference-recursive"})
_OWN_LONG: dict[str, frozenset[str]] = {
    "curl": _LONG | {"alt-svc", "cookie-jar", "data", "dump-header", "etag-save", "form", "hsts", "json", "libcurl",
                     "stderr", "trace", "trace-ascii"},
    "wget": _LONG | {"background", "post-data", "save-cookies", "use-askpass"},
    "ctest": _LONG | {"build-and-test", "test-command"}, "date": _LONG | {"set"}, "egrep": _GREP,
    "eslint": _LONG | {"format"}, "fd": _LONG | {"follow"}, "fdfind": _LONG | {"follow"}, "fgrep": _GREP,
    "file": _LONG | {"compile", "files-from", "preserve-date"}, "grep": _GREP,
    "jest": _LONG | {"dependencyExtractor", "env", "environment", "filter", "globalSetup", "setupFiles",
                     "setupFilesAfterEnv", "testEnvironment", "testRunner", "transform"},
    "npm": _LONG | {"prefix"}, "py.test": _LONG | {"debug"}, "pytest": _LONG | {"debug"},
    "rg": frozenset({"follow", "hostname-bin", "ignore-file", "pre"}),
    "tar": _LONG | {"checkpoint-action", "file", "info-script", "new-volume-script", "transform"},
    "vitest": _LONG | {"environment", "globalSetup"}, "wc": frozenset({"files0-from"}),
    "cat": frozenset(), "cut": frozenset(), "diff": frozenset({"recursive"}), "du": frozenset({"files0-from"}),
    "head": frozenset(), "ls": frozenset(), "tail": frozenset(), "tr": frozenset(),
}
"""Long options that must be named, of programs that have fewer or more of them."""
_STEMS = frozenset({
    "api", "bootstrap", "browser", "cmd", "command", "compiler", "conf", "config", "configuration", "createstub",
    "dashboard", "dir", "directory", "dirs", "editor", "exec", "executable", "extensions", "file", "globals", "hook",
    "host", "html", "interpreter", "junit", "library", "loader", "location", "logfile", "logger", "magic",
    "makeprogram", "outdir", "output", "overwrite", "parser", "pastebin", "path", "plugin", "plugins", "pool", "port",
    "preload", "prepend", "preset", "printer", "processor", "project", "projects", "property", "provider", "proxy",
    "pythonpath", "report", "reporter", "reporters", "resolver", "root", "roots", "rsh", "rsync", "rsyncdir", "runner",
    "script", "sequencer", "serializers", "server", "settings", "shadow", "shell", "socket", "startup", "submit",
    "template", "tx", "upload", "url", "venv", "venvpath", "writebaseline",
})
"""Parts of the names of long options that run, load, write or access other places: `--html-report`, `--testRunner`."""
_PLAIN_LONG = frozenset({"path-format", "testPathIgnorePatterns", "testPathPattern", "testPathPatterns"})
"""Long options that have such a part and do none of this."""
_STEM = re.compile("[A-Z]?[a-z0-9]+|[A-Z]+")
_ARGUMENT_FILES = frozenset({
    "ar", "cc", "clang", "clang++", "dotnet", "g++", "gcc", "java", "javac", "ld", "mypy", "py.test", "pylint",
    "pytest", "ruff", "rustc", "swiftc", "tsc",
})
"""Programs that read options from a file, passed as `@file`."""
_GO = frozenset({
    "C", "asmflags", "blockprofile", "c", "compiler", "coverprofile", "cpuprofile", "exec", "gccgoflags", "gcflags",
    "ldflags", "memprofile", "modfile", "mutexprofile", "o", "outputdir", "overlay", "pkgdir", "toolexec", "trace",
    "vettool",
})
"""Options of go, which takes them with one dash or two."""
_SHORT = {
    "basedpyright": "", "basename": "", "black": "", "cargo": "ZC", "cat": "",
    "cmp": "", "column": "", "comm": "", "coverage": "", "cp": "t", "ctest": "DMSTO",
    "curl": "oOKTdFxwcD", "cut": "", "date": "s",
    "df": "", "diff": "r", "dirname": "", "du": "", "echo": "", "egrep": "", "eslint": "cfo", "fd": "xXL",
    "fdfind": "xXL", "fgrep": "R", "file": "Cfmp", "find": "", "flake8": "", "git": "O",
    "go": "Co", "gofmt": "rw", "grep": "R", "head": "", "hostname": "", "id": "", "isort": "", "jest": "c", "jq": "fL",
    "less": "oO", "ls": "", "make": "fCEIo", "man": "P", "md5sum": "", "mkdir": "", "mv": "t", "mypy": "",
    "nl": "", "npm": "C", "pnpm": "C", "ps": "", "py.test": "pco", "pyright": "", "phpunit": "cd",
    "pytest": "pco", "python": "c",
    "realpath": "", "rg": "L", "ruff": "", "sed": "ifsE", "sha256sum": "", "sort": "oT", "stat": "", "tail": "",
    "tar": "IFC", "touch": "", "tr": "", "tree": "Rlo", "tsc": "p", "uname": "", "uniq": "", "unittest": "",
    "unzip": "d", "vitest": "cr", "wc": "", "wget": "OoPieab", "which": "", "xxd": "r", "yarn": "C", "zip": "TO",
}
"""Letters of one-dash options that must be named, by program; an unlisted program uses `_SHORT_ANY`."""
_SHORT_ANY = "ceoxCEIOX"
_ONE_DASH = frozenset({
    "c++", "cc", "clang", "clang++", "convert", "ffmpeg", "find", "g++", "gcc", "go", "java", "javac", "terraform",
})
"""Programs whose long options have one dash."""
_KNOWN = RUNNERS | SHELLS | INTERPRETERS | DISPATCHERS | _ONE_DASH | _SHORT.keys()
_VERSIONED = re.compile(r"(.*[A-Za-z+])-?[0-9]+(?:\.[0-9]+)*")
_ACTS = ("exec", "ok", "f", "o", "L")
"""How such an option begins that must be named."""
_COMPILERS = frozenset({"c++", "cc", "clang", "clang++", "g++", "gcc"})
_COMPILER_ACTS = (*_ACTS, "B", "M", "Wa,", "Wl,", "Wp,", "X", "aux-info", "dump", "iplugindir", "save-temps", "specs",
                  "wrapper", "x")
"""How an option of a compiler begins that must be named: other programs and specifications, further files written."""
_WRITES_OPERAND = frozenset({
    "uniq", "xxd",
})
"""Programs that write their second operand."""
_SED_PLAIN = frozenset({"-n", "-u", "-z", "-nz", "-zn", "--quiet", "--silent", "--unbuffered", "--null-data"})
"""Options of sed after which the first operand is its script."""
_JQ_READS = re.compile(r"\b(?:import|include)\b")
"""Words of a filter that read further files."""
_SED_SCRIPT = re.compile(r"(?:[0-9]+|\$)(?:,(?:[0-9]+|\$))?[pdq=]")
MAX_OPTION_CHARS = 256
"""A longer word with one dash must be named: what follows each of its letters may be a path."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://|:)|(?:data|javascript|ext|file|fd):", re.IGNORECASE)
_REMOTE = re.compile(r"[\w.-]+@[\w.-]+:|[\w-]+(?:\.[\w-]+)+:[^0-9]")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[:+?]?=")


def program(words: Sequence[str]) -> str:
    """Return the program's own name: what follows the last slash of the first word, without the version of a program
    that these tables know (`python3.11`, `gcc-12`)."""
    name = posixpath.basename(words[0]) if words else ""
    versioned = None if name in _KNOWN else _VERSIONED.fullmatch(name)
    return versioned[1] if versioned is not None and versioned[1] in _KNOWN else name


def must_name(words: Sequence[str]) -> set[int]:
    """Return the indexes of the words that an allow rule must name literally; the program's is always one of them."""
    name = program(words)
    if name in RUNNERS:
        return set(range(len(words)))
    named = {0, *range(fixed_words(words))}
    # A module or script is the program from there on.
    acting = _acting(name, words)
    named |= {at for at in range(1, len(words)) if _reaches(acting, words[at])}
    if name == "sed":
        named |= _sed_scripts(words)
    if name == "jq":
        named |= {at for at in range(1, len(words)) if _JQ_READS.search(words[at])}
    if name in _WRITES_OPERAND:
        named |= set(range(min(_operands(words), default=len(words)) + 1, len(words)))
    return named


def fixed_words(words: Sequence[str]) -> int:
    """Return how many words determine what is run: a program alone, with its subcommand, or with the code that it
    runs."""
    name = program(words)
    if name not in INTERPRETERS and name not in DISPATCHERS:
        return 1
    operands = [at for at in range(1, len(words)) if not words[at].startswith(("-", "+"))]
    if name in INTERPRETERS and len(words) > 1 and words[1] == "-m":
        return min(3, len(words))
    if not operands:
        return len(words)
    first = operands[0]
    if (name, words[first]) in _SCRIPTED:
        return (operands[1] if len(operands) > 1 else len(words) - 1) + 1
    return first + 1


def _acting(name: str, words: Sequence[str]) -> str:
    if name in INTERPRETERS and len(words) > 2 and words[1] == "-m":
        return words[2]
    if name == "uv" and len(words) > 2 and words[1] == "run":
        return program(words[2:])
    return name


def _reaches(name: str, word: str) -> bool:
    """Return whether this argument makes the program run, load or write something, or access other places."""
    if word.startswith("-") and name in _ONE_DASH:
        option = word.lstrip("-").partition("=")[0]
        prefixes = _COMPILER_ACTS if name in _COMPILERS else _ACTS
        return option in _LONG or (option in _GO if name == "go" else option.startswith(prefixes))
    if word.startswith("--"):
        return _reaches_by_name(name, word)
    if word.startswith("-") and len(word) > 1:
        return len(word) > MAX_OPTION_CHARS or any(letter in word for letter in _SHORT.get(name, _SHORT_ANY))
    if word.startswith("@") and name in _ARGUMENT_FILES:
        return True
    return name in ("make", "env", "gmake") and _ASSIGNED.match(word) is not None


def _reaches_by_name(name: str, word: str) -> bool:
    option, _, value = word[2:].partition("=")
    known = _OWN_LONG.get(name, _LONG)
    if any(one == option or (len(option) > 1 and one.startswith(option)) or option.startswith(f"{one}-")
           for one in known if option):
        return True
    if not known >= _LONG or option in _PLAIN_LONG or option.startswith("no-"):
        return False
    if option == "cov-report" and value and ":" not in value:
        return False
    return any(part.lower() in _STEMS for part in _STEM.findall(option))


def _sed_scripts(words: Sequence[str]) -> set[int]:
    """Return the words of a sed command that are not plain: a script may run and write, and only one that prints or
    deletes lines by number is plain."""
    operands = _operands(words)
    return {at for at in operands[:1] if _SED_SCRIPT.fullmatch(words[at]) is None} | {
        at for at in range(1, len(words)) if at not in operands and words[at] not in _SED_PLAIN}


def _operands(words: Sequence[str]) -> list[int]:
    """Return the indexes of the words that are not options: also `-` for standard input, and all after `--`."""
    ends = words.index("--") if "--" in words else len(words)
    return [at for at in range(1, len(words)) if at > ends or not words[at].startswith("-") or words[at] == "-"]


def urls_in(word: str) -> str | None:
    """Return the URL, or the location on another host, that a word names."""
    value = word.partition("=")[2] if word.startswith("-") else word
    return value if _URL.match(value) or _REMOTE.match(value) else None


def paths_in(word: str) -> tuple[str, ...]:
    """Return what of a word may be a path: all of it, what follows a `=`, and what follows any letter of an option with
    one dash."""
    head, _, value = word.partition("=")
    if not word.startswith("-"):
        found = [word, value] if head.isidentifier() else [word]
    else:
        found = [value] if word.startswith("--") else [value, *(word[at:] for at in range(2, len(word)))]
    return tuple(one for one in dict.fromkeys(found) if one)
