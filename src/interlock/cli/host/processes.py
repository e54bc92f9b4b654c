"""`interlock gateway` and `interlock runner`: the two processes, which run until SIGTERM or Ctrl-C (G-3)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from cyclopts import Parameter

from interlock.cli.config.loaded_config import load_config
from interlock.cli.config.pairings import home_of, pairings
from interlock.cli.config.place import (
    NOWHERE,
    RUNNER_TOKEN_FILE,
    Here,
    running_gateway,
    writable,
)
from interlock.cli.display.terminal import say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link import trust
from interlock.cli.link.gateway_url import checked_url
from interlock.cli.verb_error import Trouble, usage

WithParent = Annotated[bool, Parameter(show=False)]
"""End when standard input ends, since the process that started this one is gone."""


def gateway(
    *,
    host: Annotated[str | None, Parameter(help="Address to listen on (else the config's); a public one needs TLS or a "
                                               "trusted proxy.")] = None,
    port: Annotated[int | None, Parameter(help="Port to listen on (else the config's); 0 chooses a free one.")] = None,
    tls_cert: Annotated[Path | None, Parameter(help="PEM file with the certificate and its chain.")] = None,
    tls_key: Annotated[Path | None, Parameter(help="PEM file with the certificate's key.")] = None,
    behind_proxy: Annotated[bool, Parameter(help="A TLS proxy at an address in the config's trusted_proxies "
                                                 "is in front of the gateway.")] = False,
    store: Annotated[str | None, Parameter(help="PostgreSQL database that several gateways share, "
                                                "postgresql://… (else the config's, else a file in the state "
                                                "directory).")] = None,
    bus: Annotated[str | None, Parameter(help="The NATS servers that the gateways share, nats://…, separated by "
                                              "commas.")]
    = None,
    new_signing_key: Annotated[bool, Parameter(negative=(), help=(
        "Sign with the state directory's gateway.key from now on, if the shared ledger has another one. "
        "Stop all its gateways first."))] = False,
    with_parent: WithParent = False,
    where: Here = NOWHERE,
) -> int:
    """Run the gateway alone, in the foreground."""
    load_structlog()
    from interlock import log
    from interlock.app.gateway import run_gateway
    from interlock.backends.sqlite.lock import AlreadyRunning
    from interlock.config import FILE_NAME, ClusterSection, Config, ConfigError, load
    from interlock.gateway.audit.signing_key import KeyUnusable
    from interlock.gateway.server.server import BindRefused
    from interlock.log import configure
    from interlock.ports.bus import BusError
    from interlock.ports.ledger import LedgerError
    from interlock.ports.objects import ObjectsError

    configure()
    state = writable(where.made_directory())
    config = load_config(where)
    options = {"host": host, "port": None if port is None else checked_port(port),
               "tls_cert": None if tls_cert is None else str(tls_cert.absolute()),
               "tls_key": None if tls_key is None else str(tls_key.absolute()), "behind_proxy": behind_proxy or None}

    def over(config: Config) -> Config:
        """Return the config with the options of the command line applied."""
        section = msgspec.structs.replace(
            config.gateway, **{key: one for key, one in options.items() if one is not None})
        shared = {"store": store or config.cluster.store, "bus": bus or config.cluster.bus}
        return msgspec.structs.replace(config, gateway=section, cluster=ClusterSection(**shared))

    try:
        config = over(config)
    except ValueError as error:
        raise usage(f"{error}.", _remedy(str(error))) from None
    token = state / RUNNER_TOKEN_FILE
    log.configure(rules=config.redaction.rules)
    if with_parent:
        end_with_parent()
    try:
        _drive(run_gateway(state, config, ready=_listening, local_runner_token=token if token.exists() else None,
                           reload=lambda: over(load(state / FILE_NAME)), new_signing_key=new_signing_key))
    except AlreadyRunning as error:
        raise Trouble("Conflict", str(error), "See it with: interlock status") from None
    except (BindRefused, BusError, KeyUnusable) as error:
        raise usage(str(error)) from None
    except ConfigError as error:  # A secret that the config names is read only here.
        raise usage(error.sentences[0], "Correct it: interlock config path prints the file.") from None
    except (LedgerError, ObjectsError) as error:
        raise Trouble("LedgerUnusable", str(error), "Check the state directory with: interlock doctor") from None
    return ExitStatus.DONE


def load_structlog() -> None:
    """Load structlog without rich, which it would import for coloured tracebacks: these logs are JSON, and rich would
    occupy 3 MB of each process for as long as it runs (Y-18)."""
    if "rich" in sys.modules or "structlog" in sys.modules:
        return
    sys.modules["rich"] = cast("Any", None)  # As the import system has a module that is not to be found.
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]


def _remedy(sentence: str) -> str:
    """Return what to type, by the setting that the error message begins with."""
    setting = sentence.partition(":")[0]
    if setting == "store":
        return "For one: --store postgresql://me@db/interlock"
    if setting == "bus":
        return "For one: --bus nats://host:4222, beside --store."
    return "Give --tls-cert and --tls-key together."


def runner(
    *,
    root: Annotated[list[Path] | None, Parameter(help="A directory that may contain workspaces; "
                                                      "may be repeated (default: the config's, else the current "
                                                      "one).")] = None,
    token_file: Annotated[Path | None, Parameter(help="File with the token of the runner that `up` pairs itself.")]
    = None,
    ca: Annotated[Path | None, Parameter(help="PEM file of a CA to trust in addition to the system's.")] = None,
    with_parent: WithParent = False,
    where: Here = NOWHERE,
) -> int:
    """Run the runner alone, in the foreground."""
    load_structlog()
    from interlock import log
    from interlock.app.runner import Dialled, run_runner
    from interlock.config import FILE_NAME, load
    from interlock.log import configure
    from interlock.ports.objects import ObjectsError
    from interlock.ports.outbox import OutboxError
    from interlock.runner.link.link import TokenRefused
    from interlock.runner.link.reconnect import UnsafeUrl

    configure()
    state = writable(where.made_directory())
    config = load_config(where)
    roots = checked_roots(root)
    known = pairings(state) if token_file is None else []
    named = where.url or os.environ.get("INTERLOCK_URL")
    if where.url and len(known) > 1:
        raise usage(f"This host is paired with {len(known)} gateways, and --url names one.",
                    "Leave it out: the runner serves all of them. One that has moved is paired again.")
    dialled = [
        Dialled(url=(url := checked_url(where.url or one.paired.url)), token=_token(one.token_file),
                runner_id=one.paired.runner_id,
                tls=trust.tls(url, state, ca or (Path(one.paired.ca) if one.paired.ca else None)))
        for one in known
    ]
    if not dialled:
        url = _gateway_url(state, named)
        token = _token(token_file or state / RUNNER_TOKEN_FILE)
        dialled = [Dialled(url=url, token=token, tls=trust.tls(url, state, ca))]
    log.configure(rules=config.redaction.rules)
    if with_parent:
        end_with_parent()
    try:
        asyncio.run(run_runner(state, config, dialled, roots=roots, home=home_of(known) if known else "",
                               reload=lambda: load(state / FILE_NAME)))
    except TokenRefused as error:
        raise Trouble("Unauthorized", str(error)) from None
    except UnsafeUrl as error:
        raise usage(str(error)) from None
    except (OutboxError, ObjectsError) as error:
        raise Trouble("OutboxUnusable", str(error)) from None
    return ExitStatus.DONE


def _gateway_url(state: Path, named: str | None) -> str:
    running = running_gateway(state)
    if named is None and running is None:
        raise Trouble("Unreachable", f"No gateway runs on {state}.", "Name one with --url, start both with: "
                      "interlock up, or pair this host: interlock runner pair CODE --url URL")
    return checked_url(named or (running.url if running is not None else ""))


def checked_port(port: int) -> int:
    """Check a port. Raises Trouble."""
    if not 0 <= port <= 65535:
        raise usage(f"--port {port} is not a port.", "Give a number from 0 to 65535; 0 takes a free one.")
    return port


def checked_roots(roots: list[Path] | None) -> list[str] | None:
    """Return the roots as absolute paths. Raises Trouble."""
    for root in roots or ():
        if not root.expanduser().is_dir():
            raise usage(f"The root {root} is not a directory.", "Name one that is there with --root.")
    return [str(root.expanduser().resolve()) for root in roots] if roots else None


def end_with_parent() -> None:
    """Treat the end of standard input as SIGTERM."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _listening(url: str) -> None:
    say(f"the gateway listens on {url}")


def _drive(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(work)


def _token(path: Path) -> str:
    try:
        token = path.read_text("ascii").strip()
    except FileNotFoundError:
        raise Trouble("Unauthorized", f"There is no runner token at {path}.",
                      "`interlock up` makes one; or pair this host: interlock runner pair CODE --url URL") from None
    except (OSError, UnicodeDecodeError):
        raise usage(f"The token file {path} cannot be read.", "Read it as the user who owns it.") from None
    if not token:
        raise usage(f"The token file {path} is empty.", "Remove it; the next `interlock up` makes a new one.")
    return token
