"""The runner's composition: an outbox on SQLite, the link to the gateway, and the agents of the config."""

from __future__ import annotations

import os
from pathlib import Path

from interlock.app.place import LOCAL_RUNNER
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.config import Config
from interlock.runner import main

RAWP_PATH = "/rawp"
OUTBOX_NAME = "outbox.db"


async def run_runner(state: Path, config: Config, url: str, token: str, *, roots: list[str] | None = None) -> None:
    """Run the local runner of a state directory until SIGTERM or SIGINT, with its outbox under `<state>/runner`.

    `url` is the gateway's, http or ws. Without roots, in the config or here, workspaces lie where it was started (A-1).
    Raises TokenRefused, UnsafeUrl, OutboxError, each with one sentence.
    """
    directory = state / "runner"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    outbox = SqliteOutbox(directory / OUTBOX_NAME, limit_bytes=config.runner.outbox_bytes)
    try:
        await main.run_runner(
            main.RunnerConfig(
                url=url.replace("http", "ws", 1).rstrip("/") + RAWP_PATH if url.startswith("http") else url,
                token=token, runner_id=LOCAL_RUNNER, state_dir=directory,
                roots=roots or config.runner.roots or [str(Path.cwd())], agents=config.agents,
                device_name=os.uname().nodename, outbox_bytes=config.runner.outbox_bytes,
                agent_idle_ms=config.runner.agent_idle_ms,
            ),
            outbox,
        )
    finally:
        await outbox.close()
