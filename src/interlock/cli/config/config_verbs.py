"""`interlock config check|show|path` (G-1)."""

from __future__ import annotations

import msgspec

from interlock import config
from interlock.cli.config.config_mistakes import mistakes_of
from interlock.cli.config.loaded_config import load_config
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.terminal import one_line, print_json, print_sentence, result, say
from interlock.cli.display.values import not_a_glob
from interlock.cli.exit_status import ExitStatus
from interlock.cli.options import Json
from interlock.command.policy.presets import is_broad


def check(*, json: Json = False, where: Here = NOWHERE) -> int:
    """Check the config file; each mistake is one line with its place."""
    path = where.directory() / config.FILE_NAME
    mistakes = mistakes_of(where.directory())
    if json:
        print_json(msgspec.json.encode({"file": str(path), "ok": not mistakes, "mistakes": mistakes}))
    elif mistakes:
        for mistake in mistakes:
            print_sentence(mistake)
    else:
        print_sentence(f"ok: {path}" if path.exists() else f"ok: {path} does not exist, so everything is as shipped")
        for rule in load_config(where).policy.rules:
            if is_broad(rule):
                say(f"the rule {one_line(rule.name)} allows any input of the tools that it names; limit it with "
                    "words, path or url, unless you mean that", "bold", "the rule")
            if (glob := rule.command_like_glob()) is not None:
                say(f"the rule {one_line(rule.name)}: {not_a_glob(glob)}", "bold", "the rule")
    return ExitStatus.USAGE if mistakes else ExitStatus.DONE


def show(*, json: Json = False, where: Here = NOWHERE) -> int:
    """Show the settings in force, with secrets left out."""
    loaded = load_config(where)
    shown = config.show(loaded)
    if json:
        import tomllib

        print_json(msgspec.json.encode(tomllib.loads(shown)))
    else:
        result(shown, end="")
    return ExitStatus.DONE


def path(*, where: Here = NOWHERE) -> int:
    """Say where the config file lies."""
    file = where.directory() / config.FILE_NAME
    result(str(file))
    if not file.exists():
        say("it does not exist yet; everything is as shipped", "dim")
    return ExitStatus.DONE
