"""A new PostgreSQL behind a link with latency."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from interlock.app.own_servers import start_postgres
from proof.faults.slow_link import SlowLink

_SOCKET = ".s.PGSQL.5432"


class SlowPostgres(NamedTuple):
    """A running PostgreSQL, its URL without latency, and the one through the link."""

    direct_url: str
    url: str
    link: SlowLink
    """Its `rtt_s` is 0 at first."""


@contextmanager
def slow_postgres() -> Generator[SlowPostgres]:
    """Start a PostgreSQL with an empty database in a temporary directory; stop it and remove its files at the end."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR")) as name:
        folder = Path(name)
        folder.chmod(0o755)
        database = start_postgres(folder, options=["max_connections=200"])
        link = SlowLink(folder / _SOCKET, Path(parse_qs(urlsplit(database.url).query)["host"][0]) / _SOCKET)
        link.start()
        try:
            yield SlowPostgres(database.url, f"postgresql://interlock@/postgres?host={folder}", link)
        finally:
            link.stop()
            database.stop()
