"""`interlock config check|show|path` (G-1)."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock import config
from interlock.cli.exit_status import Exit
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import print_json, result, say
from interlock.cli.trouble import usage


def check(*, json: Annotated[bool, Parameter(help="Print one JSON document.")] = False, where: Here = NOWHERE) -> int:
    """Check the config file; each mistake is one line with its place."""
    path = where.directory() / config.FILE_NAME
    mistakes = config.check(path) or _unknown_adapters(path)
    if json:
        print_json(msgspec.json.encode({"file": str(path), "ok": not mistakes, "mistakes": mistakes}))
    elif mistakes:
        for mistake in mistakes:
            result(mistake)
    else:
        result(f"ok: {path}" if path.exists() else f"ok: {path} does not exist, so everything is as shipped")
    return Exit.USAGE if mistakes else Exit.DONE


def _unknown_adapters(path: Path) -> list[str]:
    """The runner offers an agent with an unknown adapter as one that cannot start; here it is a mistake (A-7)."""
    from interlock.agents.registry import ADAPTERS

    found: list[str] = []
    text = path.read_text("utf-8-sig") if path.exists() else ""
    for name, spec in config.parse(text, str(path)).agents.items():
        if spec.adapter not in ADAPTERS:
            line = config.key_lines(text).get(("agents", name, "adapter"))
            near = difflib.get_close_matches(spec.adapter, ADAPTERS, 1)
            remedy = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(sorted(ADAPTERS))}."
            found.append(f'{path}{f":{line}" if line else ""}: there is no adapter "{spec.adapter}"; {remedy}')
    return found


def show(*, json: Annotated[bool, Parameter(help="Print one JSON document.")] = False, where: Here = NOWHERE) -> int:
    """Show the settings in force, with secrets left out."""
    loaded = load_config(where)
    shown = config.show(loaded)
    if json:
        import tomllib

        print_json(msgspec.json.encode(tomllib.loads(shown)))
    else:
        result(shown, end="")
    return Exit.DONE


def path(*, where: Here = NOWHERE) -> int:
    """Say where the config file lies."""
    file = where.directory() / config.FILE_NAME
    result(str(file))
    if not file.exists():
        say("it does not exist yet; everything is as shipped", "dim")
    return Exit.DONE


def load_config(where: Where) -> config.Config:
    """Read the config of a state directory. Raises Trouble with the first mistake."""
    try:
        return config.load(where.directory() / config.FILE_NAME)
    except config.ConfigError as error:
        more = len(error.sentences) - 1
        also = f" ({more} more)" if more else ""
        raise usage(error.sentences[0].rstrip(".") + also + ".", "See all with: interlock config check") from None
