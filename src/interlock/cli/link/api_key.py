"""The API key that a verb sends: from the environment, otherwise the owner's of a state directory (K-1)."""

from __future__ import annotations

import os
from pathlib import Path

from interlock.cli.config.place import OWNER_KEY_FILE
from interlock.cli.verb_error import Trouble, usage


def key_of(state: Path) -> str:
    """Return $INTERLOCK_KEY, otherwise the content of `owner.key`. Raises Trouble."""
    key = os.environ.get("INTERLOCK_KEY")
    if key is None:
        path = state / OWNER_KEY_FILE
        try:
            key = path.read_text("ascii").strip()
        except FileNotFoundError:
            raise Trouble("Unauthorized", f"There is no key: {path} does not exist.",
                          "Set $INTERLOCK_KEY, or name the gateway's state directory with --state.") from None
        except OSError as error:
            raise usage(f"The key file {path} cannot be read: {error.strerror}.",
                        "Read it as the user who owns it, or set $INTERLOCK_KEY.") from None
        except UnicodeDecodeError:
            raise usage(f"The key file {path} holds no key.", "Set $INTERLOCK_KEY.") from None
    return checked_key(key)


def checked_key(key: str) -> str:
    """Return a key without surrounding whitespace. Raises Trouble for text that cannot be a key."""
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise usage("The key is empty or has characters that no key has.", "See $INTERLOCK_KEY and owner.key.")
    return key
