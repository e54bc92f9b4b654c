"""The runner's composition: an outbox on SQLite, the link to the gateway, and the agents of the config."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from interlock.app.agent_checks import AgentChecks
from interlock.app.descriptors import raise_limit
from interlock.app.hidden_paths import boxing_of
from interlock.app.place import LOCAL_RUNNER
from interlock.app.tokenizer import prepare_tokenizer
from interlock.backends.objects.directory import DirectoryObjects
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.config import Config, ConfigError
from interlock.runner import main
from interlock.runner.agent_catalog import Offering, OfferingRefused
from interlock.runner.link.gateways import PairedGateway
from interlock.runner.link.reconnect import rawp_url

OUTBOX_NAME = "outbox.db"
OBJECTS_NAME = "objects"


class Dialled(NamedTuple):
    """A gateway to connect to: its URL (http, https, ws or wss), the token it issued, its name for this runner, and the
    trusted certificates (None: the system's)."""

    url: str
    token: str
    runner_id: str = LOCAL_RUNNER
    tls: ssl.SSLContext | None = None


async def run_runner(
    state: Path,
    config: Config,
    dialled: list[Dialled],
    *,
    home: str = "",
    roots: list[str] | None = None,
    reload: Callable[[], Config] | None = None,
) -> None:
    """Run a runner of a state directory until SIGTERM or SIGINT.

    It dials every gateway of `dialled`, the one that it was paired with first in front (D-5). The outbox of the runner
    that `up` pairs is below `<state>/runner`; one that was paired has a directory of its own there, `home`, since
    sessions belong to the runner that opened them. Without roots, in the config or here, workspaces are in its working
    directory (A-1). On SIGHUP agents and roots come from `reload`; if that raises ConfigError the old ones stay, and it
    is logged (G-1). Raises TokenRefused, UnsafeUrl, OutboxError, ObjectsError, each with one sentence.
    """
    checks = AgentChecks(state, os.environ)

    def offering_of(config: Config) -> Offering:
        return checks.offering(config, roots or config.runner.roots or [str(Path.cwd())])

    def read_offering() -> Offering:
        try:
            return offering_of(config if reload is None else reload())
        except ConfigError as error:
            raise OfferingRefused(list(error.sentences)) from None

    prepare_tokenizer()
    offering = offering_of(config)
    directory = state / "runner" / home
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    outbox = SqliteOutbox(directory / OUTBOX_NAME, limit_bytes=config.runner.outbox_bytes)
    try:
        objects = DirectoryObjects(directory / OBJECTS_NAME)
        await main.run_runner(
            main.RunnerConfig(
                gateways=[PairedGateway(url=rawp_url(one.url), token=one.token, runner_id=one.runner_id, tls=one.tls)
                          for one in dialled],
                runner_id=home or LOCAL_RUNNER, state_dir=directory,
                roots=offering.roots, agents=dict(offering.agents), holdings=offering.holdings,
                device_name=os.uname().nodename, outbox_bytes=config.runner.outbox_bytes,
                agent_idle_ms=config.runner.agent_idle_ms, drain_ms=config.runner.drain_ms,
                agent_descriptors=raise_limit(), boxing=boxing_of(state, directory),
            ),
            outbox, objects, read_offering, checks.keep,
        )
    finally:
        await outbox.close()
