"""`interlock service` and `interlock runner install`: parts that start with the host (L-3, Y-15)."""

from __future__ import annotations

import os
import plistlib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from interlock.cli.config.loaded_config import load_config
from interlock.cli.config.pairings import pairings
from interlock.cli.config.place import LOGS, Where, writable
from interlock.cli.display.columns import Layout, cut_middle
from interlock.cli.display.terminal import result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.host.processes import checked_roots
from interlock.cli.options import Json, State
from interlock.cli.verb_answer import ListTable, print_value
from interlock.cli.verb_error import Trouble, usage

Kind = Literal["systemd", "launchd"]
Part = Literal["up", "gateway", "runner"]

PARTS: dict[Part, str] = {"up": "Interlock gateway and runner", "gateway": "Interlock gateway",
                          "runner": "Interlock runner"}
STOP_SLACK_S = 30
"""Time in addition to drain_ms that a runner needs to end its agents (A-4)."""

ForOption = Annotated[Kind | None, Parameter(name="--for", help="systemd or launchd (default: this platform's; with "
                                                                "--print both).")]
PrintOption = Annotated[bool, Parameter(name="--print", help="Print what would be written, and write no file.")]
RootOption = Annotated[list[Path] | None, Parameter(help="A directory that may contain workspaces; may be repeated "
                                                         "(default: the config's, else this one).")]
PartArgument = Annotated[Part, Parameter(help="What to start: `interlock up`, the gateway, or the runner.")]
RemovedPart = Annotated[Part, Parameter(help="The service to remove: of `interlock up`, the gateway, or the runner.")]
ForceOption = Annotated[bool, Parameter(help="Overwrite a file with other content.")]


SERVICES = ListTable[dict[str, list[dict[str, Any]]]](
    header=("PART", "FILE", "WHAT"),
    rows=lambda found: [[one["part"], one["file"] if one["installed"] else "not installed", one["what"]]
                        for one in found["services"]],
    layout=Layout(text=("FILE",), drop=("WHAT",), shorten=cut_middle))


def install(*, print_: PrintOption = False, for_: ForOption = None, root: RootOption = None,
            force: ForceOption = False, state: State = None) -> int:
    """Install the paired runner as a service of this host."""
    return service_install("runner", print_=print_, for_=for_, root=root, force=force, state=state)


def services(*, json: Json = False) -> int:
    """List which parts this host starts by itself, and by which file."""
    found = [(part, place(part, _platform()).expanduser(), description) for part, description in PARTS.items()]
    return print_value({"services": [
        {"part": part, "file": str(path), "installed": path.exists(), "what": description}
        for part, path, description in found]}, SERVICES.show, json=json)


def service_install(
    part: PartArgument, /, *, print_: PrintOption = False,
    for_: ForOption = None, root: RootOption = None, force: ForceOption = False, state: State = None,
) -> int:
    """Install `interlock up`, a gateway or a paired runner as a service of this user on this host."""
    where = Where(state=state)
    directory = where.made_directory()
    config = load_config(where)
    words = [sys.executable, "-m", "interlock", part, "--state", str(directory)]
    if part == "gateway":
        if root:
            raise usage("--root is for a runner; a gateway has no workspaces.", "Leave it out.")
    else:
        # The config's roots are read by the runner itself, and again at `config reload` (G-1).
        roots = checked_roots(root) or ([] if config.runner.roots else [str(Path.cwd())])
        words += [word for one in roots for word in ("--root", one)]
    grace_s = (0 if part == "gateway" else config.runner.drain_ms // 1000) + STOP_SLACK_S
    made: dict[Kind, tuple[Path, str]] = {
        "systemd": (place(part, "systemd"), unit(words, directory, grace_s, part)),
        "launchd": (place(part, "launchd"), plist(words, directory, grace_s, part)),
    }
    if print_:
        _print(made, for_)
        return ExitStatus.DONE
    if part == "runner" and not pairings(directory):
        raise Trouble("NotPaired", f"No runner of {directory} is paired.", "Pair it first: interlock runner pair CODE "
                      "--url URL")
    kind = for_ or _platform()
    _refuse_beside(part, kind)
    path, text = made[kind]
    (writable(directory) / LOGS).mkdir(mode=0o700, exist_ok=True)
    _write(path.expanduser(), text, force=force)
    result(str(path.expanduser()))
    say("start it with: " + (f"systemctl --user daemon-reload && systemctl --user enable --now {path.name}"
                             if kind == "systemd" else f"launchctl bootstrap gui/{os.getuid()} {path}"))
    if kind == "systemd":
        say("and let it run while you are logged out: loginctl enable-linger", "dim")
    return ExitStatus.DONE


def service_remove(part: RemovedPart, /, *, for_: ForOption = None) -> int:
    """Remove the file by which this host starts a part; what runs continues until it is stopped."""
    kind = for_ or _platform()
    path = place(part, kind).expanduser()
    try:
        path.unlink()
    except FileNotFoundError:
        raise Trouble("NotInstalled", f"{path} does not exist.", "See what is installed: interlock service",
                      ExitStatus.NOT_FOUND) from None
    except OSError as error:
        raise Trouble("WriteFailed", f"{path} cannot be removed: {error.strerror}.", "Remove it by hand.") from None
    result(str(path))
    say("stop what runs with: " + (f"systemctl --user disable --now {path.name}; systemctl --user daemon-reload"
                                   if kind == "systemd" else f"launchctl bootout gui/{os.getuid()}/interlock.{part}"))
    return ExitStatus.DONE


def place(part: Part, kind: Kind) -> Path:
    """Return the path of a part's service file, below the home directory."""
    return (Path("~/.config/systemd/user", f"interlock-{part}.service") if kind == "systemd"
            else Path("~/Library/LaunchAgents", f"interlock.{part}.plist"))


def _platform() -> Kind:
    return "launchd" if sys.platform == "darwin" else "systemd"


def _refuse_beside(part: Part, kind: Kind) -> None:
    """Raise a usage error if `up` would run beside one of the two parts that it starts itself."""
    others: tuple[Part, ...] = ("gateway", "runner") if part == "up" else ("up",)
    for other in others:
        path = place(other, kind).expanduser()
        if path.exists():
            raise usage(f"{path} already starts {'a part of ' if part == 'up' else ''}what {part} would start.",
                        f"Remove it first: interlock service remove {other}")


def unit(words: list[str], state: Path, grace_s: int, part: Part = "runner") -> str:
    """Return a systemd user unit. Restarting after status 2 (usage) or 8 (token refused) would end the same way, so
    both are final."""
    return "\n".join((
        "[Unit]", f"Description={PARTS[part]}", "",
        "[Service]",
        "ExecStart=" + " ".join(map(_quoted, words)),
        "ExecReload=/bin/kill -HUP $MAINPID",
        "WorkingDirectory=" + _percent(str(state)),
        "Environment=" + _quoted("PATH=" + os.environ.get("PATH", os.defpath), dollar=False),
        "Restart=on-failure", "RestartSec=2", "RestartPreventExitStatus=2 8",
        f"KillMode=mixed\nTimeoutStopSec={grace_s}", "UMask=0077", "",
        "[Install]", "WantedBy=default.target", "",
    ))


def plist(words: list[str], state: Path, grace_s: int, part: Part = "runner") -> str:
    """Write a launchd property list."""
    log = state / LOGS / f"{part}.log"
    return plistlib.dumps({
        "Label": f"interlock.{part}", "ProgramArguments": words, "WorkingDirectory": str(state), "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False}, "ExitTimeOut": grace_s, "Umask": 0o077,
        "EnvironmentVariables": {"PATH": os.environ.get("PATH", os.defpath)},
        "StandardOutPath": str(log), "StandardErrorPath": str(log),
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
    """Quote a word for systemd: backslash, quotes, and characters that systemd would expand."""
    escaped = _percent(word.replace("\\", "\\\\").replace('"', '\\"'))
    return '"' + (escaped.replace("$", "$$") if dollar else escaped) + '"'


def _percent(word: str) -> str:
    return word.replace("%", "%%")
