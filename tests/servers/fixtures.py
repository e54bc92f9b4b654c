"""Real servers for tests: one of each kind for a run, started at its first use and ended after the last."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.schema import migrate
from servers import by_tenant

_numbers = itertools.count()
KEEPER = Path(__file__).with_name("keeper.py")
START_TIMEOUT_S = 60
WIPE = """
SELECT 'SET session_replication_role = replica;' || string_agg(format('DELETE FROM %I;', tablename), '')
    || 'SET session_replication_role = origin;'
FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_version'
"""


def shared_server(name: str, run: str) -> Iterator[str]:
    """The address of the run's server of this kind; while it is held, the server is there."""
    directory = Path(tempfile.gettempdir()) / f"interlock-tests-{run}"
    directory.mkdir(mode=0o755, exist_ok=True)
    with (directory / f"{name}.users").open("a") as users, (directory / f"{name}.start").open("a") as start:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(start, fcntl.LOCK_EX)
        url = directory / f"{name}.url"
        if not url.exists():
            with (directory / f"{name}.keeper.log").open("ab") as out:
                keeper = subprocess.Popen([sys.executable, str(KEEPER), name, str(directory)],
                                          stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
                keeper.returncode = 0  # It outlives this process, so no one waits for it.
            deadline = time.monotonic() + START_TIMEOUT_S
            while not url.exists():
                log = (directory / f"{name}.keeper.log").read_text()
                assert time.monotonic() < deadline, f"{name} did not start: {log}"
                assert "Error" not in log, log
                time.sleep(0.02)
        fcntl.flock(start, fcntl.LOCK_UN)
        yield url.read_text()


@pytest.fixture(scope="session")
def run_id(request: pytest.FixtureRequest) -> str:
    """Names this run of the tests, in all its processes."""
    config = getattr(request.config, "workerinput", None)
    return str(config["testrunuid"]) if config is not None else str(os.getpid())


@pytest.fixture(scope="session")
def postgres_server(run_id: str) -> Iterator[str]:
    """A PostgreSQL server that forgets on a power cut."""
    yield from shared_server("postgres", run_id)


@pytest.fixture(scope="session")
def nats_server(run_id: str) -> Iterator[str]:
    """A NATS server."""
    yield from shared_server("nats", run_id)


def named(server: str, database: str) -> str:
    """The address of another database of a server."""
    return server.replace("/postgres?", f"/{database}?")


def _migrated(server: str, name: str, further: str = "") -> str:
    """Make a database with the newest schema, and run `further` there; returns its address."""
    url = named(server, name)

    async def make() -> None:
        connection = await asyncpg.connect(server)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()
        connection = await asyncpg.connect(url)
        await migrate(connection, url)  # type: ignore[arg-type]
        if further:
            await connection.execute(further)
        await connection.close()

    asyncio.run(make())
    return url


def _wiped(url: str) -> PostgresSettings:
    async def wipe() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(await connection.fetchval(WIPE))
        await connection.close()

    asyncio.run(wipe())
    return PostgresSettings(url)


@pytest.fixture(scope="session")
def _own_database(postgres_server: str) -> str:
    return _migrated(postgres_server, f"tests_{os.getpid()}")


@pytest.fixture(scope="session")
def _own_database_by_tenant(postgres_server: str) -> str:
    return _migrated(postgres_server, f"by_tenant_{os.getpid()}", by_tenant.MAKE)


@pytest.fixture
def postgres(_own_database: str) -> PostgresSettings:
    """A database with the newest schema and nothing in it. It is this process's, and one test's at a time."""
    return _wiped(_own_database)


@pytest.fixture
def postgres_by_tenant(_own_database_by_tenant: str) -> PostgresSettings:
    """The same as a form distributed by tenant would be (`by_tenant`): without triggers and keys of all tenants."""
    return _wiped(_own_database_by_tenant)


def _new_database(server: str) -> str:
    name = f"empty_{os.getpid()}_{next(_numbers)}"

    async def make() -> None:
        connection = await asyncpg.connect(server)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(make())
    return named(server, name)


@pytest.fixture
def empty_database(postgres_server: str) -> str:
    """The address of a database without any table."""
    return _new_database(postgres_server)


@pytest.fixture
def second_database(postgres_server: str) -> str:
    """The address of another database without any table."""
    return _new_database(postgres_server)
