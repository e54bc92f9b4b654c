"""Runs one server for the tests of one run, until no process holds its lock. The kernel releases locks, so this
holds after any kill.

`python keeper.py postgres|nats DIRECTORY`; its address is in `DIRECTORY/NAME.url` once it takes connections.
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import sys
from pathlib import Path

from interlock.app.own_servers import start_nats, start_postgres


def keep(name: str, directory: Path) -> None:
    own = directory / name
    own.mkdir()
    server = start_postgres(own, durable=False, options=["max_connections=200"]) if name == "postgres" \
        else start_nats(own)
    draft = directory / f"{name}.new"
    draft.write_text(server.url)
    draft.rename(directory / f"{name}.url")
    with (directory / f"{name}.users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        # A later process waits for the lock, then starts another server; the file of the lock stays for it.
        (directory / f"{name}.url").unlink()
        server.stop(signal.SIGINT)
        shutil.rmtree(own, ignore_errors=True)


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]))
