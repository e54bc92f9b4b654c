"""`interlock telegram`: carries messages between a Telegram bot and the gateway, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio

from interlock.cli import trust
from interlock.cli.config_verbs import load_config
from interlock.cli.exit_status import Exit
from interlock.cli.gateway_link import locate
from interlock.cli.place import NOWHERE, Here, writable
from interlock.cli.processes import WithParent, end_with_parent
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.extras import install


def telegram(*, with_parent: WithParent = False, where: Here = NOWHERE) -> int:
    """Carry messages between a Telegram bot and the gateway, in the foreground."""
    state = writable(where.directory())
    loaded = load_config(where)
    if loaded.telegram is None:
        raise usage("The config has no [telegram] table.", "It is described in docs/how-to/telegram.md.")
    try:
        from interlock.app.telegram import BotRefused, Gate, run_telegram
    except ModuleNotFoundError:
        raise Trouble("NotInstalled", "The Telegram channel is not installed.",
                      f"Install it: {install('telegram')}") from None
    from interlock import log
    from interlock.config import ConfigError

    address = locate(where)
    log.configure(rules=loaded.redaction.rules)
    if with_parent:
        end_with_parent()
    try:
        asyncio.run(run_telegram(state, loaded, Gate(address.url, address.key, trust.tls(address.url, state))))
    except ConfigError as error:
        raise usage(f"{error.sentences[0].rstrip('.')}.", "Correct it: interlock config path says where.") from None
    except BotRefused as error:
        raise Trouble("UpstreamError", str(error), "Correct [telegram] in the config.") from None
    except (OSError, ValueError) as error:
        raise Trouble("StateUnusable", f"{error}", "Check the state directory.") from None
    return Exit.DONE
