"""What programs do with their arguments, as far as an allow rule depends on it (H-7).

A rule's wildcard matches plain arguments. The rule must name literally each word that makes a program run another one,
write elsewhere or leave the workspace. The tables err on the side of asking.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

RUNNERS = frozenset({
    ".", "at", "bash", "batch", "builtin", "bunx", "busybox", "bwrap", "chpst", "chroot", "chrt", "command",
    "coproc", "crontab", "csh", "dash", "doas", "docker", "entr", "env", "eval", "exec", "expect", "firejail",
    "fish", "flock", "gdb", "ionice", "ksh", "kubectl", "lldb", "ltrace", "mksh", "nerdctl", "nice", "nohup",
    "npx", "nsenter", "parallel", "pdsh", "pipx", "pkexec", "podman", "prlimit", "proot", "pwsh", "rbash",
    "rsync", "run-parts", "runuser", "scp", "screen", "script", "setarch", "setpriv", "setsid", "sftp", "sh",
    "source", "ssh", "sshpass", "start-stop-daemon", "stdbuf", "strace", "su", "sudo", "systemd-run", "taskset",
    "tcsh", "time", "timeout", "tmux", "toybox", "trap", "unbuffer", "unshare", "uvx", "watch", "xargs", "xterm",
    "zsh",
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
_OWN_LONG: dict[str, frozenset[str]] = {
    "cat": frozenset(), "cut": frozenset(), "du": frozenset({"files0-from"}), "grep": frozenset(), "head": frozenset(),
    "jest": _LONG | {"environment", "filter", "globalSetup", "setupFiles", "testRunner", "transform"},
    "ls": frozenset(),
    "npm": _LONG | {"prefix"}, "rg": frozenset({"hostname-bin", "ignore-file", "pre"}), "tail": frozenset(),
    "tar": _LONG | {"checkpoint-action", "file", "info-script", "new-volume-script", "transform"},
    "tr": frozenset(), "vitest": _LONG | {"environment", "globalSetup"}, "wc": frozenset({"files0-from"}),
    "date": _LONG | {"set"}, "sed": _LONG | {"file"},
}
"""Long options that must be named, of programs that have fewer or more of them."""
_SHORT = {
    "basedpyright": "", "basename": "", "black": "", "cargo": "ZC", "cat": "", "cc": "oBx", "clang": "oBx",
    "cmp": "", "column": "", "comm": "", "coverage": "", "cp": "t", "curl": "oOKTdFxwcD", "cut": "", "date": "s",
    "df": "", "diff": "", "dirname": "", "du": "", "echo": "", "egrep": "", "eslint": "co", "fd": "xX",
    "fdfind": "xX", "fgrep": "", "file": "Cm", "find": "", "flake8": "", "g++": "oBx", "gcc": "oBx", "git": "O",
    "go": "Co", "grep": "", "head": "", "hostname": "", "id": "", "isort": "", "jest": "c", "jq": "fL",
    "less": "oO", "ls": "", "make": "fCEIo", "man": "P", "md5sum": "", "mkdir": "", "mv": "t", "mypy": "",
    "nl": "", "npm": "C", "pnpm": "C", "ps": "", "py.test": "pco", "pyright": "", "pytest": "pco", "python": "c",
    "realpath": "", "rg": "", "ruff": "", "sed": "ifsE", "sha256sum": "", "sort": "oT", "stat": "", "tail": "",
    "tar": "IFC", "touch": "", "tr": "", "tree": "o", "tsc": "p", "uname": "", "uniq": "", "unittest": "",
    "unzip": "d", "vitest": "cr", "wc": "", "wget": "OoPie", "which": "", "xxd": "r", "yarn": "C", "zip": "TO",
}
"""Letters of one-dash options that must be named, by program; an unlisted program uses `_SHORT_ANY`."""
_SHORT_ANY = "ceoxCEIOX"
_ONE_DASH = frozenset({
    "cc", "clang", "convert", "ffmpeg", "find", "g++", "gcc", "go", "java", "javac", "terraform",
})
"""Programs whose long options have one dash."""
_WRITES_OPERAND = frozenset({
    "uniq", "xxd",
})
"""Programs that write their second operand."""
_SED_SCRIPT = re.compile(r"(?:[0-9]+|\$)(?:,(?:[0-9]+|\$))?[pdq=]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://|:)|(?:data|javascript|ext|file|fd):", re.IGNORECASE)
_REMOTE = re.compile(r"[\w.-]+@[\w.-]+:|[\w-]+(?:\.[\w-]+)+:[^0-9]")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[:+?]?=")


def program(words: Sequence[str]) -> str:
    """Return the program's own name: what follows the last slash of the first word."""
    return posixpath.basename(words[0]) if words else ""


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
    if name in _WRITES_OPERAND:
        named |= set([at for at in range(1, len(words)) if not words[at].startswith("-")][1:])
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
    if word.startswith("--"):
        option = word[2:].partition("=")[0]
        return bool(option) and any(
            known == option or (len(option) > 1 and known.startswith(option)) or option.startswith(f"{known}-")
            for known in _OWN_LONG.get(name, _LONG))
    if word.startswith("-") and len(word) > 1:
        if name in _ONE_DASH:
            return word[1:].partition("=")[0] in _LONG or word[1:].startswith(("exec", "ok", "f", "o", "toolexec", "C",
                                                                              "overlay", "modfile", "vettool"))
        return any(letter in word for letter in _SHORT.get(name, _SHORT_ANY))
    return name in ("make", "env", "gmake") and _ASSIGNED.match(word) is not None


def _sed_scripts(words: Sequence[str]) -> set[int]:
    """Return the scripts of a sed command that are not plain: a script may run and write, and only one that prints or
    deletes lines by number is plain."""
    operands = [at for at in range(1, len(words)) if not words[at].startswith("-")]
    return {at for at in operands[:1] if _SED_SCRIPT.fullmatch(words[at]) is None}


def urls_in(word: str) -> str | None:
    """Return the URL, or the location on another host, that a word names."""
    value = word.partition("=")[2] if word.startswith("-") else word
    return value if _URL.match(value) or _REMOTE.match(value) else None


def path_in(word: str) -> str:
    """Return the part of a word that may be a path: after an option's `=`, or after its letter if a path begins
    there."""
    if not word.startswith("-"):
        head, eq, value = word.partition("=")
        return value if eq and head.isidentifier() else word
    value = word.partition("=")[2]
    if value:
        return value
    found = re.search(r"[~/]|\.\./", word)
    return word[found.start():] if found and not word.startswith("--") else ""
