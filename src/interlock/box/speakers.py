"""Sockets of programs that would act for a boxed agent: sign with its user's keys, start containers or services (H-15).

A wall blocks files, which such a program could open for the agent. Behind Landlock the sockets stay open: it limits
access to files, and does not restrict connections to a socket by its path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

from interlock.protocol.box import SPEAKERS, Speaker

MAX_FOUND = 64
"""Sockets of one pattern that are hidden, such as those of agents that a user forwarded over many logins."""
_NAMED: Mapping[Speaker, tuple[str, ...]] = {
    "ssh-agent": ("SSH_AUTH_SOCK",),
    "gpg-agent": (),
    "docker": ("DOCKER_HOST", "CONTAINER_HOST"),
    "dbus": ("DBUS_SESSION_BUS_ADDRESS",),
    "tmux": ("TMUX",),
}
"""Variables that contain a path, or an address with one."""
_PLACES: Mapping[Speaker, tuple[str, ...]] = {
    "ssh-agent": ("/tmp/ssh-*/agent.*", "{run}/keyring/ssh", "{run}/keyring/.ssh", "{run}/gcr/ssh",
                  "{run}/ssh-agent.socket", "{run}/openssh_agent", "{home}/.ssh/agent/*",
                  "{home}/.1password/agent.sock"),
    "gpg-agent": ("{gnupg}/S.*", "{run}/gnupg", "{run}/keyring/gpg"),
    "docker": ("/run/docker.sock", "/run/podman", "/run/containerd", "/run/crio", "{run}/docker.sock", "{run}/podman",
               "{home}/.docker/run", "{home}/.docker/desktop/*.sock"),
    "dbus": ("{run}/bus", "{run}/dbus-1", "{run}/systemd", "/run/dbus", "/run/systemd/private"),
    "tmux": ("/tmp/tmux-{user}", "/run/screen", "/tmp/screens/S-*", "{home}/.screen"),
}


def sockets(left_open: Iterable[Speaker], environments: Iterable[Mapping[str, str]], user: int, home: str
            ) -> list[str]:
    """Return the existing sockets, and directories of nothing but sockets, that are hidden from a boxed agent: all but
    those of the programs that are left open."""
    kept = set(left_open)
    variables = list(environments)
    found: list[str] = []
    for speaker in SPEAKERS:
        if speaker in kept:
            continue
        for one in variables:
            found += [path for name in _NAMED[speaker] for path in _paths(one.get(name, ""))
                      if not Path(path).is_dir()]
            gnupg = one.get("GNUPGHOME") or f"{home}/.gnupg"
            run = one.get("XDG_RUNTIME_DIR") or f"/run/user/{user}"
            for place in _PLACES[speaker]:
                pattern = place.format(run=run, home=home, gnupg=gnupg, user=user)
                found += _matching(pattern) if "*" in pattern else [pattern]
    return [path for path in dict.fromkeys(found) if os.path.lexists(path)]


def _matching(pattern: str) -> list[str]:
    root = Path("/")
    return [str(path) for path in islice(root.glob(pattern.removeprefix("/")), MAX_FOUND)]


def _paths(value: str) -> list[str]:
    """Return the absolute paths of sockets in a variable: a path, `unix:path=…,guid=…;…`, `unix:///…`, or tmux's
    `path,pid,n`."""
    parts = value.replace(";", ",").split(",")
    paths = [part.removeprefix("unix:").removeprefix("path=") for part in parts]
    return ["/" + path.lstrip("/") for path in paths if path.startswith("/")]
