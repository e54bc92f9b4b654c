"""`interlock policy use`: write the presets that a config uses into its file (Y-4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from interlock import config
from interlock.cli.config.place import Where
from interlock.cli.display.terminal import print_sentence, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import usage
from interlock.command.policy.presets import PRESETS, Preset
from interlock.durable_files import FILE_MODE, replace_file

_USE = re.compile(r"^[ \t]*use[ \t]*=[ \t]*\[[^\]]*\][^\n]*$", re.MULTILINE)
_HEADER = re.compile(r"^[ \t]*\[policy\][^\n]*$", re.MULTILINE)
_ANY_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def use_presets(names: Sequence[str], where: Where) -> int:
    """Write `[policy] use`, and print what is allowed from then on. Raises Trouble."""
    known = get_args(Preset)
    if not names:
        raise usage("No preset is named.", f"Name some of {', '.join(known)}, or none: interlock policy use readonly")
    wanted: list[Preset] = [name for name in known if name in names]
    if tuple(names) != ("none",) and (unknown := [name for name in names if name not in known]):
        raise usage(f"There is no preset {unknown[0]!r}.", f"Name some of {', '.join(known)}, or none alone.")
    file = where.made_directory() / config.FILE_NAME
    before = file.read_text("utf-8-sig") if file.exists() else ""
    after = with_presets(before, wanted)
    try:
        config.parse(before, str(file))
        config.parse(after, str(file))
    except config.ConfigError as error:
        raise usage(error.sentences[0], "Mend the file first; nothing was changed. See: interlock config check"
                    ) from None
    _write(file, after)
    print_sentence(f"{file}: policy uses {', '.join(wanted) or 'no preset'}")
    for name in wanted:
        for rule in PRESETS[name]:
            say(f"  {rule.effect} · {rule.name}", "dim")
    if "ci" in wanted:
        say("  what is built and tested runs as you: with edits, an agent may run what it wrote")
    if "boxed" in wanted:
        say("  it concerns agents whose [agents.ID.box] sets `write` and `network`; see: interlock agents")
    say("a gateway that runs reads it with: interlock config reload", "dim")
    return ExitStatus.DONE


def with_presets(text: str, wanted: Sequence[str]) -> str:
    """Return the config's text with `use` set in `[policy]`; the rest is unchanged."""
    line = f"use = [{', '.join(f'{chr(34)}{name}{chr(34)}' for name in wanted)}]"
    header = _HEADER.search(text)
    if header is None:
        first = _ANY_HEADER.search(text)
        at = first.start() if first else len(text)
        lead = text[:at].rstrip("\n")
        return (f"{lead}\n\n" if lead else "") + f"[policy]\n{line}\n" + (f"\n{text[at:]}" if text[at:] else "")
    following = _ANY_HEADER.search(text, header.end())
    end = following.start() if following else len(text)
    body = text[header.end():end]
    found = _USE.search(body)
    body = body[:found.start()] + line + body[found.end():] if found else f"\n{line}{body}"
    return text[:header.end()] + body + text[end:]


def _write(file: Path, text: str) -> None:
    """Replace the file durably; its mode is kept."""
    replace_file(file, text.encode(), mode=file.stat().st_mode & 0o777 if file.exists() else FILE_MODE)
