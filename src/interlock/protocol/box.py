"""The box of one opening as data (H-18): what its runner reports, what a card shows, what a policy rule may require.

Pure. The runner reports a box in hello for each agent, and for an opening in the capabilities that answer its open.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

WallKind = Literal["namespace", "landlock", "none"]
"""`namespace`: a mount namespace of the agent's own. `landlock`: Linux's access rules. `none`: no wall."""
Network = Literal["all", "none", "model"] | list[str]
"""`none`: only its own loopback. `model`: its provider's hosts, through the runner's proxy. A list: these hosts and
ports, through the same proxy."""
LANDING = "land_changes"
"""The tool name of the question whether staged changes land (H-17); rules name it like a tool."""
Part = Literal["walls", "writes", "network", "programs", "staged"]
"""Values of a policy rule's `box`; see `parts`."""
CLOSED: tuple[Part, ...] = ("walls", "writes", "network")
"""What `box = true` in a rule requires."""
Speaker = Literal["ssh-agent", "gpg-agent", "docker", "dbus", "tmux"]
"""Programs that listen on sockets, and could act for an agent outside its walls."""
SPEAKERS: tuple[Speaker, ...] = get_args(Speaker)
MAX_HOSTS_SHOWN = 4
MAX_HOST_CHARS = 80


class Box(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The restrictions of an agent's processes, whether it cooperates or not. Without walls nothing else of it is
    enforced."""

    walls: WallKind
    access: Literal["rw", "ro", "none"] = "rw"
    """Its access to its workspace, enforced by a wall."""
    limited: bool = False
    """Whether it can change only its workspace, temporary files and the paths that its config lists."""
    network: Network = "all"
    programs: bool = False
    """Every program that it starts waits for policy (H-16)."""
    staged: bool = False
    """Whether its changes in its workspace land there after a yes (H-17)."""
    no_sockets: list[Speaker] = []
    """The programs whose sockets are hidden from it: keys, containers and services that it cannot reach by them."""


def parts(box: Box | None) -> tuple[Part, ...]:
    """Return what a box enforces, as rules name it; nothing for a box without walls, or for none."""
    if box is None or box.walls == "none":
        return ()
    found: list[Part] = ["walls"]
    if box.limited:
        found.append("writes")
    if box.network != "all":
        found.append("network")
    if box.programs:
        found.append("programs")
    if box.staged:
        found.append("staged")
    return tuple(found)


def is_closed(box: Box | None) -> bool:
    """Return whether a box enforces what `box = true` requires: walls, its writes and its network."""
    return set(CLOSED) <= set(parts(box))


def covers(stated: Box | None, promised: Box | None) -> bool:
    """Return whether the box of an opening has every restriction that was promised when the decision was made."""
    if promised is None or promised.walls == "none":
        return True
    if stated is None or not set(parts(promised)) <= set(parts(stated)):
        return False
    network = promised.network == "all" or stated.network in (promised.network, "none")
    if not set(promised.no_sockets) <= set(stated.no_sockets):
        return False
    return network and promised.access in ("rw", stated.access)


def phrase(box: Box) -> str:
    """Return a box's description in one line: `in a box (namespace): no network but its model; writes are staged`."""
    if box.walls == "none":
        return "no walls: it can read Interlock's own keys"
    held = [_network(box.network), _writes(box)]
    if box.programs:
        held.append("each program that it starts is held")
    if box.no_sockets:
        left = [name for name in SPEAKERS if name not in box.no_sockets]
        held.append("other programs' sockets hidden" + (f" but for {', '.join(left)}" if left else ""))
    return f"{'in a box' if is_closed(box) else 'behind walls'} ({box.walls}): {'; '.join(held)}"


def _network(network: Network) -> str:
    if isinstance(network, str):
        return {"all": "open network", "none": "no network", "model": "no network but its model"}[network]
    shown = [host[:MAX_HOST_CHARS] for host in network[:MAX_HOSTS_SHOWN]]
    more = [f"{len(network) - MAX_HOSTS_SHOWN} more"] if len(network) > MAX_HOSTS_SHOWN else []
    return f"no network but {', '.join((*shown, *more))}"


def _writes(box: Box) -> str:
    elsewhere = "only listed paths writable" if box.limited else "writes elsewhere are not held"
    if box.access != "rw":
        return f"workspace {'read-only' if box.access == 'ro' else 'hidden'}, {elsewhere}"
    if box.staged:
        return "writes are staged" if box.limited else "writes in the workspace are staged, others are not held"
    return "writes only in its workspace and listed paths" if box.limited else "writes are not held"
