"""A PostgreSQL and its synchronous standby, of which one dies and the other is promoted: both on this host."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from interlock.app.own_servers import OWNER, SOCKET, OwnServer, postgres_programs, start_postgres
from interlock.backends.postgres.database import PostgresSettings, connect

OPTIONS = ("max_connections=100", "hot_standby_feedback=on", "wal_receiver_timeout=2s", "wal_sender_timeout=2s",
           "fsync=off", "full_page_writes=off")
"""A process that is killed leaves what it wrote to the system, so nothing is synced here."""
FORGETFUL = ("synchronous_standby_names=", "autovacuum=off")
"""Of a primary that comes back: nothing holds up what is written to it, and it writes nothing by itself."""
STANDBY_TIMEOUT_S = 60.0


class PostgresPair:
    """A primary and its standby below `place`; a commit returns once the standby has it. `make_standby` makes a new
    one after each promotion, at the address of the dead one: `url` always names both."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._made = 0
        self._homes: dict[OwnServer, tuple[Path, Path]] = {}
        """The directory of each server, and the address that it has or had."""
        self._dead: list[OwnServer] = []
        self._addresses = (place / "first", place / "second")
        for address in self._addresses:
            address.mkdir(mode=0o755)
        directory = self._next()
        self.primary = start_postgres(directory, options=OPTIONS)
        self.standby = self.primary
        self._has_moved_in(self.primary, directory)
        self.make_standby()

    @property
    def url(self) -> str:
        """An address that names both servers, and wants the one that takes writes."""
        hosts = ",".join(map(str, self._addresses))
        return f"postgresql://{OWNER}@/postgres?host={hosts}&target_session_attrs=read-write"

    def make_standby(self) -> None:
        """Copy the primary, start the copy as its standby, and let commits wait for it from then on."""
        directory = self._next()
        copy = [str(postgres_programs() / "pg_basebackup"), "-h", _sockets(self.primary), "-U", OWNER, "-D",
                str(directory / "postgres"), "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        if os.geteuid() == 0:  # PostgreSQL runs as another user then.
            unprivileged = pwd.getpwnam("nobody")
            os.chown(directory, unprivileged.pw_uid, unprivileged.pw_gid)
            subprocess.run(copy, check=True, user=unprivileged.pw_uid, group=unprivileged.pw_gid, extra_groups=[],
                           cwd=directory)
        else:
            subprocess.run(copy, check=True)
        self.standby = start_postgres(directory, options=OPTIONS)
        self._has_moved_in(self.standby, directory)
        ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        until = time.monotonic() + STANDBY_TIMEOUT_S
        while ask(self.primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != 1:
            if time.monotonic() > until:
                raise TimeoutError(f"The standby does not follow: {self.standby.log.read_text()[-500:]}")
            time.sleep(0.02)

    def kill_primary(self) -> None:
        """kill -9 of the primary: its children end with it, as they see that it is gone."""
        self.primary.stop(signal.SIGKILL)
        self._dead.append(self.primary)

    def return_primary(self, which: int = -1) -> OwnServer:
        """Start a primary again that was killed, the last one or the one of this number, at the address that it had.
        It accepts writes and waits for no standby, so what it would acknowledge would be lost. The caller ends it."""
        directory, address = self._homes[self._dead[which]]
        returned = start_postgres(directory, options=(*OPTIONS, *FORGETFUL))
        _lead(address, returned)
        self._homes[returned] = directory, address
        return returned

    def address_of(self, server: OwnServer) -> Path:
        """The address that a server has, or had."""
        return self._homes[server][1]

    def stall_standby(self) -> None:
        """Stop every process of the standby: commits wait for it."""
        for pid in _tree(self.standby.pid):
            os.kill(pid, signal.SIGSTOP)

    def resume_standby(self) -> None:
        """Resume it."""
        for pid in _tree(self.standby.pid):
            os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Let the standby accept writes. It waits for no standby of its own until `make_standby` has made one."""
        assert ask(self.standby, "SELECT pg_promote(true, 60)"), "it ends its recovery"
        self.primary = self.standby

    def stop(self) -> None:
        """End both. May be called after `promote`, when there is one."""
        for server in {id(one): one for one in (self.primary, self.standby)}.values():
            server.stop(signal.SIGQUIT)

    def _next(self) -> Path:
        directory = self._place / f"server-{self._made}"
        self._made += 1
        directory.mkdir(mode=0o755)
        return directory

    def _has_moved_in(self, server: OwnServer, directory: Path) -> None:
        """Have every other server listen at the first address, and the rest at the second."""
        address = self._addresses[(self._made - 1) % 2]
        _lead(address, server)
        self._homes[server] = directory, address


def _lead(address: Path, server: OwnServer) -> None:
    """Have an address be that of a server."""
    (address / SOCKET).unlink(missing_ok=True)
    (address / SOCKET).symlink_to(Path(_sockets(server)) / SOCKET)


def ask(server: OwnServer, *statements: str) -> Any:
    """Run statements, each by itself; returns the first value of the last one."""
    return asyncio.run(_ask(server.url, statements))


async def _ask(url: str, statements: tuple[str, ...]) -> Any:
    connection = await connect(PostgresSettings(url))
    try:
        found: Any = None
        for one in statements:
            found = await connection.fetchval(one)
        return found
    finally:
        await connection.close()


def _tree(pid: int) -> list[int]:
    """A process and its children."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def _sockets(server: OwnServer) -> str:
    return parse_qs(urlsplit(server.url).query)["host"][0]
