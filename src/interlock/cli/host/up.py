"""`interlock up`: gateway and runner as two processes, paired, supervised, and ended together (G-3)."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock import config
from interlock.backends.sqlite.lock import lock_exclusively
from interlock.cli.config.loaded_config import load_config
from interlock.cli.config.place import (
    RUNNER_TOKEN_FILE,
    UP_LOCK,
    Where,
    gateway_file,
    writable,
    write_private,
)
from interlock.cli.display.terminal import say
from interlock.cli.host.processes import checked_port, checked_roots
from interlock.cli.host.up_gateway import Up
from interlock.cli.options import State
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.extras import CHAT_SERVICES

TOKEN_BYTES = 32


def up(
    *,
    root: Annotated[list[Path] | None, Parameter(help="A directory that may contain workspaces; may be "
                                                      "repeated (default: the config's, else this one).")] = None,
    port: Annotated[int | None, Parameter(help="Port of the gateway (else the config's); 0 chooses a free "
                                               "one.")] = None,
    cluster: Annotated[int | None, Parameter(help="Start this number of gateways with PostgreSQL and NATS of "
                                                  "their own, to try a cluster; at most 16.")] = None,
    verbose: Annotated[bool, Parameter(help="Show the logs of gateway and runner.")] = False,
    state: State = None,
) -> int:
    """Start a gateway and a runner here, until Ctrl-C."""
    where = Where(state=state)
    directory = writable(where.made_directory())
    loaded = load_config(where)
    roots = checked_roots(root) or []
    lock = take_lock(directory)
    try:
        ensure_token(directory / RUNNER_TOKEN_FILE)
        chosen = checked_port(port) if port is not None else free_port(loaded.gateway)
        aside = [name for name in CHAT_SERVICES if getattr(loaded, name) is not None]
        return asyncio.run(_made(cluster, directory, chosen, roots, loaded, aside, verbose=verbose).run())
    finally:
        os.close(lock)


def _made(cluster: int | None, state: Path, port: int, roots: list[str], loaded: config.Config, aside: list[str], *,
          verbose: bool) -> Up:
    if cluster is None:
        return Up(state, port, roots, loaded.runner.drain_ms, aside, verbose=verbose,
                  public=loaded.gateway.public_url())
    from interlock.cli.host.up_cluster import MAX_GATEWAYS, UpCluster

    if not 1 <= cluster <= MAX_GATEWAYS:
        raise usage(f"--cluster: {cluster} is not a number from 1 to {MAX_GATEWAYS}.")
    return UpCluster(cluster, state, port, roots, loaded, aside, verbose=verbose)


def take_lock(state: Path) -> int:
    """Lock a state directory, so that one `up` at a time works on it. Raises Trouble that names the process that has
    the lock."""
    descriptor = os.open(state / UP_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock_exclusively(descriptor)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        running = gateway_file(state)
        at = f" at {running.url}" if running is not None else ""
        raise Trouble("Conflict", f"`interlock up` already runs on {state}{at} (process {holder}).",
                      "Use it, or name another state directory with --state.") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def ensure_token(path: Path) -> None:
    """Create the local runner's token if there is none (L-3)."""
    if not path.exists():
        write_private(path, b"ilr_" + secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")


def free_port(section: config.GatewaySection) -> int:
    """Return the configured port; if it is the default one and in use, 0 for a free one."""
    if section.port != config.DEFAULT_PORT:
        return section.port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", section.port))
        except OSError:
            say(f"port {section.port} is taken; taking a free one", "dim")
            return 0
    return section.port


