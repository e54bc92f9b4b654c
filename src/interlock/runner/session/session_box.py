"""Choose the walls around the agent of one opening (H-15)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from interlock.agents.model_hosts import ModelHostUnknown, model_endpoints
from interlock.box.host import Host
from interlock.box.reach import Reach, from_entries
from interlock.box.speakers import sockets
from interlock.box.spec import BoxSpec
from interlock.box.walls import NO_WALLS, Walls, inside, mounted_below, with_aliases, without_nested
from interlock.ports.agent import AgentSpec
from interlock.protocol.box import SPEAKERS as SPEAKER_NAMES
from interlock.protocol.box import Box, Speaker
from interlock.protocol.payloads import AgentOffer
from interlock.runner.staged.store import Staged

MOUNTS = Path("/proc/self/mountinfo")
TEMPORARY = ("/tmp", "/var/tmp")
SPEAKERS = ("/run/systemd/resolve", "/run/nscd", "/run/avahi-daemon", "/run/dbus", "/run/systemd/private",
            "/run/docker.sock", "/run/screen", "/run/containerd", "/run/podman", "/run/snapd.socket", "/tmp/.X11-unix")
OF_A_USER = ("/run/user/{user}", "/tmp/tmux-{user}")
"""Sockets of programs that would resolve names, connect or start programs for an agent without network; hidden from
such an agent."""
AS_SHIPPED = BoxSpec(on_unavailable="start")
"""The box of an agent without one in the config."""


class BoxRefused(Exception):
    """The agent cannot start with the required restrictions; the text is one sentence with the remedy."""


class Boxing(NamedTuple):
    """What this runner hides from its agents, and what its host supports. `hidden` are absolute directories: the state
    directory, which contains the keys, the runner's token and the record."""

    host: Host
    hidden: tuple[str, ...] = ()
    staged: str = ""
    """The directory for staged changes; "" if this runner does not stage changes."""

    def walls(self, agent_id: str, spec: AgentSpec, workspace: str, access: str, environment: Mapping[str, str],
              staged: Staged | None = None) -> Walls:
        """Return the walls for an agent that works in `workspace`, a resolved directory, under `access`.

        Raises BoxRefused if the config requires walls and there are none, or if the workspace is inside a hidden
        directory.
        """
        box = spec.box or AS_SHIPPED
        kind = self.host.choose(box)
        if kind == "none":
            if box.walls != "none" and box.on_unavailable == "refuse":
                raise BoxRefused(f"Agent {agent_id} starts only behind its walls ([agents.{agent_id}.box]), and "
                                 f"{self.why_not(box)}; set on_unavailable = \"start\" there to start it without.")
            return NO_WALLS
        programs = box.hold == "programs" and self.host.programs is None
        if box.hold == "programs" and not programs and box.on_unavailable == "refuse":
            raise BoxRefused(f"Agent {agent_id} starts only if its programs are held ([agents.{agent_id}.box]), and "
                             f"{self.why_no_programs(box)}; set on_unavailable = \"start\" there to start it without.")
        hidden = [*self.concealed(spec)]
        if (over := inside(workspace, hidden)) is not None:
            raise BoxRefused(f"The directory {workspace} lies in {over}, which is hidden from agents; work in another "
                             f"directory, or keep the state directory elsewhere with --state.")
        read_only = [workspace] if access == "ro" else []
        if access == "none":
            hidden.append(workspace)
        writable = None
        if box.write is not None:
            temporary = (*TEMPORARY, environment.get("TMPDIR", "/tmp"))
            writable = without_nested([_resolved(path) for path in (workspace, *box.write, *temporary)])
        reach = self.reach(agent_id, spec, environment)
        if reach is not None:
            hidden += [path for path in (*SPEAKERS, *(path.format(user=os.getuid()) for path in OF_A_USER))
                       if inside(workspace, [path]) is None]
        if kind == "namespace" and spec.box is not None:
            found = sockets(box.sockets, (os.environ, environment), os.getuid(), str(Path.home()))
            hidden += [path for path in found if inside(workspace, [os.path.realpath(path)]) is None]
        hidden = [os.path.realpath(path) for path in hidden if os.path.lexists(path)]
        overlay = None
        if staged is not None:
            overlay = (workspace, str(staged.upper), str(staged.work))
            read_only += [path for path in with_aliases([workspace], _mounts()) if path != workspace]
        return Walls(kind, without_nested(with_aliases(hidden, _mounts())), tuple(read_only), writable,
                     programs, None if reach is None else reach.listening, overlay)

    def reach(self, agent_id: str, spec: AgentSpec, environment: Mapping[str, str]) -> Reach | None:
        """Return the hosts that an agent may reach; None for the host's network (H-19). `environment` is the agent's
        whole one.

        Raises BoxRefused if the agent requires a network of its own and this host has none, or if its model's address
        is unknown.
        """
        box = spec.box or AS_SHIPPED
        if box.network == "all":
            return None
        if not self.limits_network(box):
            if box.on_unavailable == "start":
                return None
            raise BoxRefused(f"Agent {agent_id} starts only in a network of its own ([agents.{agent_id}.box]), and "
                             f"this host has none for it ({self.why_no_network}); set on_unavailable = \"start\" there "
                             "to start it with the host's.")
        if isinstance(box.network, list):
            return from_entries(box.network)
        try:
            return Reach(model_endpoints(spec, environment) if box.network == "model" else ())
        except ModelHostUnknown as error:
            raise BoxRefused(f"Agent {agent_id} may reach only its model ([agents.{agent_id}.box]), and {error}."
                             ) from None

    def limits_network(self, box: BoxSpec) -> bool:
        """Return whether an agent with this box gets a network of its own here."""
        return box.network != "all" and self.host.choose(box) == "namespace" and self.host.network is None

    @property
    def why_no_network(self) -> str:
        """Return the reason, in one clause, why this host cannot provide a network of the agent's own."""
        return self.host.network or "it needs a mount namespace, which this agent does not get"

    def staging(self, agent_id: str, spec: AgentSpec, session_id: str, workspace: str, access: str) -> Staged | None:
        """Return where an agent's changes are staged, None if they are not (H-17). Raises BoxRefused if they must be
        staged and cannot."""
        box = spec.box or AS_SHIPPED
        if box.changes != "staged" or access != "rw":
            return None
        why = self.why_not_staged(spec)
        if why and box.on_unavailable == "start":
            return None
        point = mounted_below(workspace, _mounts())
        if not why and point is not None:
            why = f"another file system is mounted at {point}, which an overlay would not show"
        if not why and inside(self.staged, [workspace]) is not None:
            why = f"the state directory lies in {workspace}"
        if why:
            raise BoxRefused(f"Agent {agent_id} works on staged changes ([agents.{agent_id}.box]), and {why}; set "
                             "changes = \"direct\" there to let it write in the workspace itself.")
        return Staged(Path(self.staged), session_id, workspace)

    def why_not_staged(self, spec: AgentSpec) -> str:
        """Return why the changes of an agent cannot be staged on this host; "" if they can."""
        if spec.adapter == "builtin":
            return "the built-in agent works in the runner itself, which no overlay covers"
        if self.host.choose(spec.box or AS_SHIPPED) != "namespace":
            return f"this host gives it no mount namespace ({self.host.missing.get('namespace', 'not tried')})"
        if not self.staged:
            return "this runner does not stage changes"
        return f"no overlay can be mounted here ({self.host.no_overlay})" if self.host.no_overlay else ""

    def concealed(self, spec: AgentSpec) -> tuple[str, ...]:
        """Return what is hidden from an agent, links resolved: by walls around its processes, or by the tools of an
        agent that works inside the runner, which need no walls."""
        box = spec.box or AS_SHIPPED
        return () if box.walls == "none" else tuple(_resolved(path) for path in (*self.hidden, *box.hide))

    def holds(self, spec: AgentSpec, access: str) -> bool:
        """Return whether a wall enforces this workspace access. Landlock lets names be listed, so it cannot enforce
        `none`."""
        kind = self.host.choose(spec.box or AS_SHIPPED)
        return kind == "namespace" or (kind == "landlock" and access != "none")

    def why_not(self, box: BoxSpec) -> str:
        """Return why an agent with this box has no walls here."""
        if box.walls == "none":
            return "its config sets walls = \"none\""
        if box.walls != "best" and self.host.kinds:
            return f"this host does not support {box.walls} walls ({self.host.missing.get(box.walls, 'not tried')})"
        return self.host.why_none or "this host has none"

    def why_no_programs(self, box: BoxSpec) -> str | None:
        """Return why the programs of an agent with this box are not held; None if they are."""
        if box.hold == "no":
            return "its config does not request it"
        if self.host.choose(box) == "none":
            return self.why_not(box)
        return None if self.host.programs is None else f"this host cannot hold them ({self.host.programs})"

    def offered(self, offer: AgentOffer, spec: AgentSpec | None) -> AgentOffer:
        """Return the hello's entry for an agent, with its box."""
        box = (spec.box if spec is not None else None) or AS_SHIPPED
        kind = self.host.choose(box)
        return msgspec.structs.replace(offer, box=self.box(spec, "rw"),
                                       unwalled=self.why_not(box) if kind == "none" else None)

    def box(self, spec: AgentSpec | None, access: Literal["rw", "ro", "none"]) -> Box:
        """Return the restrictions of an agent on this host under a workspace access (H-18). Without walls there are
        none."""
        box = (spec.box if spec is not None else None) or AS_SHIPPED
        kind = self.host.choose(box)
        if kind == "none":
            return Box(walls="none")
        return Box(walls=kind, access=access if spec is not None and self.holds(spec, access) else "rw",
                   limited=box.write is not None, network=box.network if self.limits_network(box) else "all",
                   programs=self.why_no_programs(box) is None, staged=self._stages(spec, access),
                   no_sockets=_no_sockets(spec) if kind == "namespace" else [])

    def _stages(self, spec: AgentSpec | None, access: str) -> bool:
        return spec is not None and spec.box is not None and spec.box.changes == "staged" and access == "rw" \
            and not self.why_not_staged(spec)


def _no_sockets(spec: AgentSpec | None) -> list[Speaker]:
    """Return the programs whose sockets are hidden from an agent: none without a box of its own in the config."""
    if spec is None or spec.box is None:
        return []
    return [name for name in SPEAKER_NAMES if name not in spec.box.sockets]


NO_BOX = Boxing(Host((), {"platform": "this runner raises no walls"}))


def _resolved(path: str) -> str:
    return os.path.realpath(Path(path).expanduser())


def _mounts() -> str:
    try:
        return MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
