"""The config of a state directory, loaded for every verb that needs it; an error in it is one sentence (G-1)."""

from __future__ import annotations

from interlock import config
from interlock.cli.config.place import Where
from interlock.cli.verb_error import usage


def load_config(where: Where) -> config.Config:
    """Read the config of a state directory. Raises Trouble with the first mistake."""
    try:
        return config.load(where.directory() / config.FILE_NAME)
    except config.ConfigError as error:
        more = len(error.sentences) - 1
        also = f" ({more} more)" if more else ""
        raise usage(error.sentences[0].rstrip(".") + also + ".", "See all with: interlock config check") from None
