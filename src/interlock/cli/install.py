"""`interlock runner install`: have the runner started with its host, by systemd or launchd (L-3)."""

from __future__ import annotations

import os
import plistlib
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from interlock.cli.config_verbs import load_config
from interlock.cli.exit_status import ExitStatus
from interlock.cli.pairings import pairings
from interlock.cli.place import LOGS, Where, writable
from interlock.cli.processes import checked_roots
from interlock.cli.terminal import result, say
from interlock.cli.verb_error import Trouble, usage

Kind = Literal["systemd", "launchd"]

UNIT_NAME = "interlock-runner.service"
LABEL = "interlock.runner"
STOP_SLACK_S = 30
"""Beside drain_ms: what a runner needs to end its agents (A-4)."""


def install(
    *,
    print_: Annotated[bool, Parameter(name="--print", help="Print what would be written, and write nothing.")] = False,
    for_: Annotated[Kind | None, Parameter(name="--for", help="systemd or launchd (default: this platform's; with "
                                                              "--print both).")] = None,
    root: Annotated[list[Path] | None, Parameter(help="A directory that workspaces may lie in; may be repeated "
                                                      "(default: the config's, else this one).")] = None,
    force: Annotated[bool, Parameter(help="Write over a file of another content.")] = False,
    state: Annotated[Path | None, Parameter(help="State directory (else $INTERLOCK_STATE, else the platform's own).")]
    = None,
) -> int:
    """Have this host start its paired runner."""
    where = Where(state=state)
    directory = where.directory()
    config = load_config(where)
    # The config's are read by the runner itself, and again when it is told to (G-1).
    roots = checked_roots(root) or ([] if config.runner.roots else [str(Path.cwd())])
    words = [sys.executable, "-m", "interlock", "runner", "--state", str(directory),
             *(part for one in roots for part in ("--root", one))]
    grace_s = config.runner.drain_ms // 1000 + STOP_SLACK_S
    made: dict[Kind, tuple[Path, str]] = {
        "systemd": (Path("~/.config/systemd/user", UNIT_NAME), unit(words, directory, grace_s)),
        "launchd": (Path("~/Library/LaunchAgents", LABEL + ".plist"), plist(words, directory, grace_s)),
    }
    if print_:
        _print(made, for_)
        return ExitStatus.DONE
    if not pairings(directory):
        raise Trouble("NotPaired", f"No runner of {directory} is paired.", "Pair it first: interlock runner pair CODE "
                      "--url URL")
    kind: Kind = for_ or ("launchd" if sys.platform == "darwin" else "systemd")
    path, text = made[kind]
    (writable(directory) / LOGS).mkdir(mode=0o700, exist_ok=True)
    _write(path.expanduser(), text, force=force)
    result(str(path.expanduser()))
    say("start it with: " + (f"systemctl --user daemon-reload && systemctl --user enable --now {UNIT_NAME}"
                             if kind == "systemd" else f"launchctl bootstrap gui/{os.getuid()} {path}"))
    if kind == "systemd":
        say("and let it run while nobody is logged in: loginctl enable-linger", "dim")
    return ExitStatus.DONE


def unit(words: list[str], state: Path, grace_s: int) -> str:
    """Write a systemd user unit. Status 2 (usage) and 8 (token refused) would only come again, so they are final."""
    return "\n".join((
        "[Unit]", "Description=Interlock runner", "",
        "[Service]",
        "ExecStart=" + " ".join(map(_quoted, words)),
        "ExecReload=/bin/kill -HUP $MAINPID",
        "WorkingDirectory=" + _percent(str(state)),
        "Environment=" + _quoted("PATH=" + os.environ.get("PATH", os.defpath), dollar=False),
        "Restart=on-failure", "RestartSec=2", "RestartPreventExitStatus=2 8",
        f"KillMode=mixed\nTimeoutStopSec={grace_s}", "UMask=0077", "",
        "[Install]", "WantedBy=default.target", "",
    ))


def plist(words: list[str], state: Path, grace_s: int) -> str:
    """Write a launchd property list."""
    return plistlib.dumps({
        "Label": LABEL, "ProgramArguments": words, "WorkingDirectory": str(state), "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False}, "ExitTimeOut": grace_s, "Umask": 0o077,
        "EnvironmentVariables": {"PATH": os.environ.get("PATH", os.defpath)},
        "StandardOutPath": str(state / LOGS / "runner.log"), "StandardErrorPath": str(state / LOGS / "runner.log"),
    }).decode()


def _print(made: dict[Kind, tuple[Path, str]], only: Kind | None) -> None:
    if only is not None:
        result(made[only][1], end="")
        return
    for path, text in made.values():
        result(f"# {path}\n{text}")


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        if path.exists() and path.read_text("utf-8") != text and not force:
            raise usage(f"{path} is there already, with another content.", "Write over it with --force.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise Trouble("WriteFailed", f"{path} cannot be written: {error.strerror}.", "See it with --print.") from None


def _quoted(word: str, *, dollar: bool = True) -> str:
    """Quote for systemd: backslash, quotes, and what it would expand."""
    escaped = _percent(word.replace("\\", "\\\\").replace('"', '\\"'))
    return '"' + (escaped.replace("$", "$$") if dollar else escaped) + '"'


def _percent(word: str) -> str:
    return word.replace("%", "%%")
