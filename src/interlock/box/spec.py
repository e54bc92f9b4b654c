"""`[agents.<id>.box]` of the config (H-15)."""

from __future__ import annotations

import shlex
from typing import Literal

import msgspec

from interlock.box.reach import from_entries
from interlock.protocol.box import Speaker


class BoxSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The walls around one agent's processes. An agent without this section has the state directory hidden from it if
    the host can do that; with it, the agent starts only behind its walls."""

    walls: Literal["best", "namespace", "landlock", "none"] = "best"
    """Which wall: `best` uses what the host has, a mount namespace first; `none` hides nothing, not even the state
    directory."""
    hide: list[str] = []
    """Files and directories that the agent can neither read nor change, absolute or from `~/`. The state directory
    always is among them."""
    write: list[str] | None = None
    """With it, the agent changes nothing but its workspace, the directories of temporary files and these, absolute or
    from `~/`; without it, whatever the runner's user may change."""
    on_unavailable: Literal["refuse", "start"] = "refuse"
    """What happens if the host has no such wall: the agent does not start, or it starts without, which is shown."""
    hold: Literal["no", "programs"] = "no"
    """With `programs` each program that the agent's processes start waits for policy or a person, whether the agent
    asks or not (H-16)."""
    between_turns: list[str] = []
    """With held programs: beginnings of command lines that start without a question while the agent works on no
    command, as when its session opens. The first word is a name that its PATH finds, or a path from / or ~/ on."""
    changes: Literal["direct", "staged"] = "direct"
    """`staged`: what the agent writes in its workspace lands there only after a yes (H-17); needs a namespace."""
    network: Literal["all", "none", "model"] | list[str] = "all"
    """What it reaches (H-19): `all` leaves the host's network; `none` is a network of its own with loopback alone;
    `model` adds a proxy to its model's hosts; a list adds one to these hosts (`api.example.com`, `example.com:8443`)
    and to any public host at these ports (`443`)."""

    sockets: list[Speaker] = []
    """Sockets of other programs that stay open to it; all others of these are hidden in a mount namespace:
    `ssh-agent`, `gpg-agent`, `docker` (and podman, containerd), `dbus` (and systemd's) and `tmux` (and screen)."""

    def __post_init__(self) -> None:
        if isinstance(self.network, list):
            from_entries(self.network)
        if self.network != "all" and self.walls in ("none", "landlock"):
            raise ValueError("network: only a namespace limits the network; remove `walls`, or set "
                             "walls = \"namespace\"")
        for name, paths in (("hide", self.hide), ("write", self.write or [])):
            for path in paths:
                if not path.startswith(("/", "~/")):
                    raise ValueError(f"{name}: {path!r} is not an absolute path; write it from / or ~/ on")
        _check_between_turns(self.between_turns, held=self.hold == "programs")
        if self.walls == "none" and self.hold == "programs":
            raise ValueError("hold: without walls an agent can reach the process that holds its programs; remove "
                             "walls = \"none\"")
        if self.changes == "staged" and self.walls not in ("best", "namespace"):
            raise ValueError(f"changes: staged changes need a namespace, and walls = \"{self.walls}\" makes none; "
                             "remove `walls`, or set changes = \"direct\"")
        if self.walls == "none" and (self.hide or self.write is not None):
            raise ValueError("walls: without walls nothing can be hidden or kept; remove `hide` and `write`, or set "
                             "walls = \"best\"")


def _check_between_turns(lines: list[str], *, held: bool) -> None:
    """Check the lines of `between_turns`. Raises ValueError for a line that names no program."""
    if lines and not held:
        raise ValueError("between_turns: no program is held; set hold = \"programs\", or remove between_turns")
    for line in lines:
        try:
            first = next(iter(shlex.split(line)), "")
        except ValueError:
            raise ValueError(f"between_turns: {line!r} has a quote that does not end") from None
        if not first or ("/" in first and not first.startswith(("/", "~/"))):
            raise ValueError(f"between_turns: {line!r} does not begin with a program's name, or its path from / or ~/ "
                             "on")
