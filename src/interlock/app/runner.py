"""The runner's composition: an outbox on SQLite, the link to the gateway, and the agents of the config."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from interlock.app.place import LOCAL_RUNNER
from interlock.backends.objects.directory import DirectoryObjects
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.config import Config
from interlock.runner import main

RAWP_PATH = "/rawp"
OUTBOX_NAME = "outbox.db"
OBJECTS_NAME = "objects"


async def run_runner(
    state: Path,
    config: Config,
    url: str,
    token: str,
    *,
    runner_id: str | None = None,
    roots: list[str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Run a runner of a state directory until SIGTERM or SIGINT.

    Without `runner_id` it is the one that `up` pairs, and its outbox lies under `<state>/runner`; one that was paired
    has a directory of its own there, since sessions belong to the runner that opened them. `url` is the gateway's, http
    or ws; `tls` says which certificates are trusted, else the system's. Without roots, in the config or here,
    workspaces lie where it was started (A-1). Raises TokenRefused, UnsafeUrl, OutboxError, ObjectsError, each with one
    sentence.
    """
    directory = state / "runner" / (runner_id or "")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    outbox = SqliteOutbox(directory / OUTBOX_NAME, limit_bytes=config.runner.outbox_bytes)
    try:
        objects = DirectoryObjects(directory / OBJECTS_NAME)
        await main.run_runner(
            main.RunnerConfig(
                url=url.replace("http", "ws", 1).rstrip("/") + RAWP_PATH if url.startswith("http") else url,
                token=token, runner_id=runner_id or LOCAL_RUNNER, state_dir=directory,
                roots=roots or config.runner.roots or [str(Path.cwd())], agents=config.agents,
                device_name=os.uname().nodename, outbox_bytes=config.runner.outbox_bytes,
                agent_idle_ms=config.runner.agent_idle_ms, drain_ms=config.runner.drain_ms, tls=tls,
            ),
            outbox, objects,
        )
    finally:
        await outbox.close()
