"""`interlock telegram` and `interlock slack`: carry messages between a chat service and the gateway, until SIGTERM or
Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import TYPE_CHECKING, Any

from interlock.cli.config.loaded_config import load_config
from interlock.cli.config.place import NOWHERE, Here, Where, writable
from interlock.cli.exit_status import ExitStatus
from interlock.cli.host.processes import WithParent, end_with_parent
from interlock.cli.link import trust
from interlock.cli.link.gateway_link import locate, renewed_key
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.extras import Extra, install

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.app.chat_bridge import Gate
    from interlock.config import Config

Run = Callable[["Path", "Config", "Gate"], Coroutine[Any, Any, None]]


def telegram(*, with_parent: WithParent = False, where: Here = NOWHERE) -> int:
    """Carry messages between a Telegram bot and the gateway, in the foreground."""
    return _carry("telegram", "Telegram", where, with_parent=with_parent)


def slack(*, with_parent: WithParent = False, where: Here = NOWHERE) -> int:
    """Carry messages between a Slack app and the gateway, in the foreground."""
    return _carry("slack", "Slack", where, with_parent=with_parent)


def _carry(extra: Extra, service: str, where: Where, *, with_parent: bool) -> int:
    """Call `run` of `interlock.app.EXTRA`, whose libraries may not be installed."""
    state = writable(where.made_directory())
    loaded = load_config(where)
    if getattr(loaded, extra) is None:
        raise usage(f"The config has no [{extra}] table.", f"It is described in docs/how-to/{extra}.md.")
    try:
        run: Run = import_module(f"interlock.app.{extra}").run
    except ModuleNotFoundError:
        raise Trouble("NotInstalled", f"The {service} channel is not installed.",
                      f"Install it: {install(extra)}") from None
    from interlock import log
    from interlock.app.chat_bridge import Gate
    from interlock.config import ConfigError
    from interlock.ports.chat_service import ChatRefused

    address = locate(where)
    log.configure(rules=loaded.redaction.rules)
    if with_parent:
        end_with_parent()
    try:
        gate = Gate(address.url, renewed_key(address, where), trust.tls(address.url, state, address.ca))
        asyncio.run(run(state, loaded, gate))
    except ConfigError as error:
        raise usage(f"{error.sentences[0].rstrip('.')}.",
                    "Correct it: interlock config path prints the file.") from None
    except ChatRefused as error:
        raise Trouble("UpstreamError", str(error), f"Correct [{extra}] in the config.") from None
    except (OSError, ValueError) as error:
        raise Trouble("StateUnusable", f"{error}", "Check the state directory.") from None
    return ExitStatus.DONE
