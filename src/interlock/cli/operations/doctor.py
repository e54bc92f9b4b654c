"""`interlock doctor`: one line for each check of this installation, with a remedy if it fails."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock import __version__, config
from interlock.agents import evidence
from interlock.agents.credentials import not_passed_on, not_set
from interlock.agents.mcp_servers import not_set as not_set_for_server
from interlock.agents.mcp_servers import program_of, summary
from interlock.box.host import Host, survey
from interlock.channels.chat.places import PlacesFile
from interlock.cli.config.pairings import pairings
from interlock.cli.config.place import NOWHERE, OWNER_KEY_FILE, Here, Where, writable
from interlock.cli.display.terminal import one_line, print_json, print_sentence
from interlock.cli.display.values import count
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.operations.cluster_health import lost_lease, shared_server
from interlock.cli.operations.drain_line import drained
from interlock.cli.operations.gateway_status import contested
from interlock.cli.operations.ledger_gaps import restored_lines
from interlock.cli.options import Json
from interlock.cli.verb_error import Trouble
from interlock.ports.agent import AgentSpec
from interlock.probe.scratch import digest_of
from interlock.protocol.answers import ClusterHealth
from interlock.protocol.api.gateway import GET_STATUS_OF_GATEWAY
from interlock.protocol.api.webhooks import LIST_WEBHOOKS
from interlock.protocol.box import phrase
from interlock.protocol.extras import CHAT_SERVICES
from interlock.protocol.limits import MIB
from interlock.runner.session.session_box import Boxing
from interlock.sdk.requests import gateway
from interlock.sdk.requests.base import read

LEAST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 512 * MIB
"""With less free space on the disk of the state directory, the ledger may soon be unable to commit."""

WORD_CELLS = 9
"""`problem`, and two blanks."""


class HostFinding(NamedTuple):
    """One check: its subject, whether it passed, what was found, and the remedy if it failed."""

    check: str
    ok: bool
    found: str
    remedy: str = ""


def doctor(*, json: Json = False, where: Here = NOWHERE) -> int:
    """Check installation, config and connections; exit with status 1 if a check fails."""
    if json:
        findings = list(examine(where))
        bad = any(not one.ok for one in findings)
        print_json(msgspec.json.encode({"ok": not bad, "checks": [one._asdict() for one in findings]}))
        return ExitStatus.FAILED if bad else ExitStatus.DONE
    bad = False
    for one in examine(where):  # Each at once: a gateway that hangs times out after some seconds.
        bad = bad or not one.ok
        word, style = ("ok", "green") if one.ok else ("problem", "red")
        remedy = f" {one.remedy}" if not one.ok else ""
        print_sentence(f"{word:<7}  {one.check}: {one.found}{remedy}", style, word, indent=WORD_CELLS)
    return ExitStatus.FAILED if bad else ExitStatus.DONE


def examine(where: Where) -> Iterator[HostFinding]:
    """Yield the finding of one check after another."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield HostFinding("python", sys.version_info[:2] >= LEAST_PYTHON, version, "Install Python 3.11 or newer.")
    yield from distributions()
    try:
        where.directory()  # One that --state names must exist.
        state = writable(where.made_directory())
    except Trouble as trouble:
        yield HostFinding("state directory", False, trouble.sentence, trouble.remedy)
        return
    mode = stat.S_IMODE(state.stat().st_mode)
    yield HostFinding("state directory", not mode & 0o077, f"{state} ({mode:04o}).", f"Close it: chmod 700 {state}")
    yield from disks(state)
    yield _config(state)
    yield from ledger(state)
    yield _key(state)
    host = survey(str(state))
    yield walls(host, state)
    yield from asyncio.run(_gateway(where))
    yield from chats(state)
    yield from _pairings(state)
    yield from _agents(state, host)


def distributions() -> Iterator[HostFinding]:
    """Report `interlock-sdk` beside this distribution: both own the library's files, so removing it breaks this one."""
    try:
        found = importlib.metadata.version("interlock-sdk")
    except importlib.metadata.PackageNotFoundError:
        return
    yield HostFinding("distributions", False,
                      f"interlock-sdk {found} is installed over files of interlock {__version__}.",
                      "Remove interlock-sdk, then force pip to reinstall the whole distribution.")


def disks(state: Path) -> Iterator[HostFinding]:
    """Yield the free space of the state directory's disk, and of the runner's if that is another: agents wait while
    the runner's outbox cannot be written."""
    runner = state / "runner"
    for place in [state, *([runner] if runner.is_dir() and runner.stat().st_dev != state.stat().st_dev else [])]:
        free = shutil.disk_usage(place).free
        yield HostFinding("disk space", free >= LEAST_FREE_BYTES, f"{free // MIB} MiB free at {place}.",
                          f"Free some: {LEAST_FREE_BYTES // MIB} MiB are the least to work with.")


def _config(state: Path) -> HostFinding:
    path = state / config.FILE_NAME
    mistakes = config.check(path)
    if mistakes:
        return HostFinding("config", False, mistakes[0], "See all with: interlock config check")
    return HostFinding("config", True, str(path) if path.exists() else "none, everything is as shipped")


def ledger(state: Path) -> Iterator[HostFinding]:
    """Yield a finding if the ledger cannot be written, or was moved to a database that the config does not name."""
    from interlock.app.data_migration.departure import why_not_here
    from interlock.backends.sqlite.ledger import LEDGER_NAME

    path = state / LEDGER_NAME
    if path.exists() and not os.access(path, os.W_OK):
        yield HostFinding("ledger", False, f"{path} cannot be written.",
                          "Check who owns it, and that its file system can be written.")

    if not config.check(state / config.FILE_NAME) and config.load(state / config.FILE_NAME).cluster.store is None:
        moved = why_not_here(state)
        if moved is not None:
            yield HostFinding("ledger", False, moved)


def walls(host: Host, state: Path) -> HostFinding:
    """Return what agents are kept from on this host, and by which mechanism (H-15)."""
    if host.why_none is not None:
        return HostFinding("walls", sys.platform != "linux", f"{host.why_none}. Agents can read the keys in {state}.",
                           "Allow user namespaces, or use a kernel with Landlock (5.13); or run the runner as a user "
                           "of "
                           "its own.")
    found = f"{', '.join(host.kinds)}; {state} is hidden from agents."
    if "namespace" not in host.kinds:
        above = ", ".join(str(parent) for parent in (*state.parents,)[:-1])
        found += (f" Without a mount namespace ({host.missing.get('namespace', 'not tried')}) agents cannot open what "
                  f"is made later directly in {above or '/'}; a state directory outside of home avoids that.")
    found += (" Programs can be held." if host.programs is None
              else f" The programs that an agent starts cannot be held ({host.programs}).")
    found += (" It can give them a network of their own." if host.network is None else
              f" It cannot give them a network of their own ({host.network}).")
    return HostFinding("walls", True, found)


def _key(state: Path) -> HostFinding:
    path = state / OWNER_KEY_FILE
    if os.environ.get("INTERLOCK_KEY"):
        return HostFinding("key", True, "from $INTERLOCK_KEY")
    if not path.exists():
        return HostFinding("key", False, f"{path} does not exist.", "The first `interlock up` makes it.")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return HostFinding("key", False, f"{path} can be read by others ({mode:04o}).", f"Close it: chmod 600 {path}")
    return HostFinding("key", os.access(path, os.R_OK), str(path), "Run as the user who owns it.")


async def _gateway(where: Where) -> list[HostFinding]:
    try:
        async with GatewayLink(where, retries=False) as link:
            standing = await link.ask(read(GET_STATUS_OF_GATEWAY))
            url, nodes, gateway_id = link.address.url, standing.runners, standing.gateway_id
            ways = [*await ledger_writes(link), *await ways_to_approvers(link)]
    except Trouble as trouble:
        return [HostFinding("gateway", False, trouble.sentence, trouble.remedy)]
    online = [node for node in nodes if node.status != "offline"]
    offered = sorted({str(agent.get("agent_id")) for node in online for agent in node.agents
                      if not agent.get("unavailable")})
    return [
        HostFinding("gateway", True, f"{url} (id {gateway_id})"),
        HostFinding("runner", bool(online), ", ".join(node.node_id for node in online) or "none is online.",
                    "Start one with: interlock up"),
        *(HostFinding(f"runner {node.node_id}", False, f"{found[:1].upper()}{found[1:]}.",
                      "Stop one of them, or give its host a token of its own: interlock runners code. If you do not "
                      f"know the other one: interlock runners revoke {node.node_id}")
          for node in nodes if (found := contested(node)) is not None),
        HostFinding("agents", bool(offered), ", ".join(offered) or "no online runner offers any.",
                    "Set one up as `interlock agents` shows."),
        *([] if standing.cluster is None else _cluster(standing.cluster)),
        *(HostFinding("drain", False, f"{drained(one)}.",
                      f"End it with: interlock undrain{'' if one.id is None else f' {one.scope} {one.id}'}")
          for one in standing.drains),
        *(() if standing.unsigned is None else (HostFinding(
            "audit log", False, f"It cannot be signed, so no new command is taken: {standing.unsigned}",
            "What runs continues."),)),
        *(() if standing.restored is None else (HostFinding(
            "older ledger", False, " ".join(restored_lines(standing.restored)),
            "See docs/how-to/backup.md, \"What a restored ledger lacks\"."),)),
        *ways,
    ]


async def ledger_writes(link: GatewayLink) -> list[HostFinding]:
    """Check that the gateway's ledger accepts writes; [] if it does. Raises Trouble."""
    if (await link.ask(gateway.ready())).ledger == "writes":
        return []
    return [HostFinding("ledger", False, "The gateway cannot write to it, so it accepts no change.",
                        "Free some space on its disk, or see why with: interlock logs")]


async def ways_to_approvers(link: GatewayLink) -> list[HostFinding]:
    """Check that every webhook and notice delivers; [] for a key that may not see them. Raises Trouble."""
    try:
        ways = (await link.ask(read(LIST_WEBHOOKS))).webhooks
    except Trouble as trouble:
        if trouble.status is not ExitStatus.NOT_AUTHORISED:
            raise
        return []
    return [HostFinding(f"{one.kind} {one.name}", not one.dead,
                        f"{count(one.dead, 'approval')} could not be sent." if one.dead else
                        f"none is lost, {one.waiting} on the way.", "See why with: interlock webhooks dead")
            for one in ways]


def _cluster(cluster: ClusterHealth) -> Iterator[HostFinding]:
    """Yield the gateways of a cluster, and the servers that they share."""
    alive = ", ".join(f"{one.instance_id} at {one.address} ({count(one.lanes, 'lane')})" for one in cluster.gateways)
    if cluster.database.reachable:
        yield HostFinding("cluster", bool(alive), alive or "no gateway is alive.", "Their logs say why.")
    if cluster.lost_lease is not None:
        yield HostFinding("lease", False, lost_lease(cluster.lost_lease),
                          "Give the gateway's host more processors, or move other work off it, if none was free.")
    yield HostFinding("database", cluster.database.trouble is None, shared_server(cluster.database),
                      "Look at PostgreSQL, and at what `store` of `[cluster]` names.")
    yield HostFinding("bus", cluster.bus.reachable, shared_server(cluster.bus),
                      "Look at NATS, and at what `bus` of `[cluster]` names.")


def chats(state: Path) -> Iterator[HostFinding]:
    """Check that each chat bridge is accepted by its service, and could show every approval that waits (O-12, O-13)."""
    for path in (state / f"{name}.json" for name in CHAT_SERVICES):
        if not path.exists():
            continue
        try:
            kept = PlacesFile(path).now
        except (OSError, ValueError) as error:
            yield HostFinding(path.stem, False, f"{error}")
            continue
        if kept.ended is not None:
            yield HostFinding(path.stem, False, kept.ended, f"Correct [{path.stem}] in the config, and start it again.")
            continue
        lost = kept.undelivered
        waiting = sum(bool(asked.waiting and not asked.messages) for asked in kept.asked.values())
        first, why = next(iter(lost.items()), ("", ""))
        yield HostFinding(path.stem, not lost,
                          f"{count(len(lost), 'approval')} could not be shown, such as {first}: {why}"
                          if lost else f"{count(waiting, 'approval')} on the way to a chat." if waiting else
                          "every approval was shown.", "Answer with: interlock approvals")


def _pairings(state: Path) -> Iterator[HostFinding]:
    """Yield the gateways that a runner on this host serves beside the local one, if any (L-3, D-5)."""
    try:
        found = pairings(state)
    except Trouble as trouble:
        yield HostFinding("pairings", False, trouble.sentence, trouble.remedy)
        return
    for one in found:
        token = one.token_file
        mode = stat.S_IMODE(token.stat().st_mode) if token.exists() else None
        name = f"paired with {one.paired.url}"
        if mode is None:
            yield HostFinding(name, False, f"{token} does not exist.", "Pair it again: interlock runner pair CODE")
        else:
            yield HostFinding(name, not mode & 0o077, f"as {one.paired.runner_id} ({token}, {mode:04o}).",
                              f"Close it: chmod 600 {token}")


def _agents(state: Path, host: Host) -> Iterator[HostFinding]:
    try:
        specs = config.load(state / config.FILE_NAME).agents
    except config.ConfigError:
        return  # Reported above.
    boxing, records = Boxing(host), evidence.read(state)
    for name, spec in specs.items():
        if spec.box is not None:
            box = boxing.box(spec, "rw")
            held = box.walls != "none" or spec.box.walls == "none" or spec.box.on_unavailable == "start"
            if held and spec.box.network != "all" and box.network == "all":
                held = spec.box.on_unavailable == "start"
                yield HostFinding(f"network of {name}", held, f"it is not limited, since {boxing.why_no_network}.",
                                  f"Change `network` in [agents.{name}.box].")
            yield HostFinding(f"box of {name}", held, f"{phrase(box)}." if held else
                              f"it does not start, since {boxing.why_not(spec.box)}.",
                              f'Change [agents.{name}.box], or set on_unavailable = "start" there.')
            if box.walls == "landlock":
                yield HostFinding(f"sockets of {name}", True,
                                  "ssh-agent's, gpg-agent's, Docker's, D-Bus's and tmux's are "
                                  "open to it: Landlock does not hide sockets.")
        yield from credentials(name, spec)
        yield from mcp_servers(name, spec)
        seen = records.get(name)
        if seen is not None and seen.reads_unasked and seen.digest == digest_of(spec, os.environ):
            yield HostFinding(f"asking of {name}", True, "it asks before shell commands, but not before those that it "
                              "takes for reading (cat, ls).")
        if spec.command:
            where = shutil.which(spec.command)
            yield HostFinding(f"agent {name}", where is not None, where or f"{spec.command} is not on PATH.",
                              "Install it, or correct `command` in the config.")


def credentials(name: str, spec: AgentSpec) -> Iterator[HostFinding]:
    """Yield keys that are set here and not passed on, and the reverse (Y-12). An agent may be logged in by a file, so
    neither is an error by itself."""
    if left := not_passed_on(spec, os.environ):
        line = f"env_pass = {msgspec.json.encode(left).decode()}"
        yield HostFinding(f"credentials of {name}", True,
                          f"{', '.join(left)} is set here, not passed on; if it needs it, write in [agents.{name}]: "
                          f"{line}.")
    if missing := not_set(spec, os.environ):
        yield HostFinding(f"credentials of {name}", True,
                          f"{', '.join(missing)} is to be passed on, and is not set here; the runner passes on what it "
                          "was started with.")


def mcp_servers(name: str, spec: AgentSpec) -> Iterator[HostFinding]:
    """Check what is visible of an agent's MCP servers without starting them (Y-13)."""
    for server, one in spec.mcp.items():
        what = f"MCP server {server} of {name}"
        missing = not_set_for_server(one, os.environ)
        if missing:
            yield HostFinding(what, False, f"{', '.join(missing)} is not set here.",
                              f"Start the runner with it, or change [agents.{name}.mcp.{server}].")
        elif one.command and program_of(one, spec.env.get("PATH") or os.environ.get("PATH")) is None:
            yield HostFinding(what, False, f"{one.command} is not on PATH.",
                              f"Install it, or correct `command` in [agents.{name}.mcp.{server}].")
        else:
            yield HostFinding(what, True, one_line(summary(one), 200))
