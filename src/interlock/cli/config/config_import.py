"""`interlock config import`: convert OpenClaw's config, as far as it has an equivalent here (G-1)."""

from __future__ import annotations

import os
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from cyclopts import Parameter

from interlock import config
from interlock.cli.config.place import NOWHERE, Here, read_within
from interlock.cli.display.terminal import one_line, print_json, print_sentence, result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.options import Json
from interlock.cli.verb_error import Trouble, usage
from interlock.config.openclaw import TOKEN_FILE, ImportedConfig, translate
from interlock.config.toml_writer import to_toml
from interlock.durable_files import replace_file

MAX_BYTES = 1024 * 1024
"""A file that is longer is not a config."""
JOBS = Path("cron/jobs.json")
"""The location of OpenClaw's cron jobs, beside its config."""


def import_(
    file: Annotated[Path, Parameter(name="FILE", help="OpenClaw's config, such as ~/.openclaw/openclaw.json.")], /, *,
    jobs: Annotated[Path | None, Parameter(help="OpenClaw's cron jobs (default: cron/jobs.json beside the "
                                                "config).")] = None,
    replace: Annotated[bool, Parameter(help="Replace the same settings in an existing interlock.toml.")] = False,
    dry_run: Annotated[bool, Parameter(name="--dry-run", help="Print what would be written, and write no file.")]
    = False,
    json: Json = False, where: Here = NOWHERE,
) -> int:
    """Take over sessions, compaction, bindings, hooks and cron jobs from OpenClaw.

    Prints what was imported and what has no meaning here. A config that is there is kept as a copy beside it.
    """
    beside = file.parent / JOBS
    found = translate(_read(file), _read(jobs or beside) if jobs is not None or beside.exists() else None)
    path = where.made_directory() / config.FILE_NAME
    text = _joined(path, found, replace=replace)
    backup = None if dry_run or not found.tables else _write(path, text, found)
    if json:
        print_json(msgspec.json.encode({"file": str(path), "written": not dry_run and bool(found.tables),
                                        "backup": str(backup) if backup is not None else None,
                                        "taken": found.taken, "left": [{"name": name, "why": why}
                                                                       for name, why in found.left]}))
        return ExitStatus.DONE
    for name in found.taken:
        say(f"taken  {one_line(name)}", "green", "taken")
    for name, why in found.left:
        say(f"left   {one_line(name)}: {one_line(why)}", "dim")
    if dry_run:
        result(text, end="")
    elif not found.tables:
        say("nothing of it has a meaning here, so nothing was written", "bold", "nothing was written")
    else:
        print_sentence(f"written: {path}" + (f" (before: {backup})" if backup is not None else ""))
        _remark(text, found)
    return ExitStatus.DONE


def _read(file: Path) -> dict[str, Any]:
    import json5

    try:
        text = read_within(file, MAX_BYTES)
        if text is None:
            raise usage(f"{file} is larger than {MAX_BYTES} bytes.", "Name OpenClaw's config.")
        read = json5.loads(text.decode("utf-8-sig"), allow_duplicate_keys=False)
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    except (ValueError, RecursionError) as error:
        raise usage(f"{file} is not JSON5: {one_line(str(error).removeprefix('<string>:'))}.") from None
    if not isinstance(read, dict):
        raise usage(f"{file} is not a config: it holds no object.")
    return cast("dict[str, Any]", read)


def _joined(path: Path, found: ImportedConfig, *, replace: bool) -> str:
    """Return the content of the file after the import. Raises Trouble if `replace` is not set and the file has one of
    the tables already, or the result is not a valid config."""
    try:
        before = path.read_text("utf-8") if path.exists() else ""
        present = tomllib.loads(before)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise usage(f"{path} cannot be read: {error}.", "See: interlock config check") from None
    twice = _overlap(present, found.tables)
    if twice and not replace:
        raise Trouble("Conflict", f"{path} already contains settings of {', '.join(twice)}, so nothing was changed.",
                      "Pass --replace to use the imported ones; the file is kept as a copy.")
    if twice:
        text = to_toml(_merged(present, found.tables))
    else:
        text = (before.rstrip() + "\n\n" if before.strip() else "") + to_toml(found.tables)
    try:
        config.parse(text, str(path))
    except config.ConfigError as error:
        raise usage(f"Nothing was written: {error.sentences[0]}", "See: interlock config check") from None
    return text


def _overlap(present: dict[str, Any], tables: dict[str, Any]) -> list[str]:
    """Return the tables that are in both: of agents, hooks and cron jobs each separately, otherwise as a whole."""
    apart = {"agents", "hooks", "cron"}
    whole = [name for name in tables if name in present and name not in apart]
    return whole + [f"{table}.{name}" for table in apart & tables.keys() & present.keys()
                    for name in tables[table] if name in present[table]]


def _merged(present: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    merged = dict(present)
    for name, table in tables.items():
        apart = name in ("agents", "hooks", "cron") and name in present
        merged[name] = {**present[name], **table} if apart else table
    return merged


def _write(path: Path, text: str, found: ImportedConfig) -> Path | None:
    """Replace the file atomically, with a copy of the previous one. Raises Trouble."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if found.token is not None:
            _put_token(path.parent / TOKEN_FILE, found.token)
        backup = path.with_name(f"{path.name}.bak-{stamp}") if path.exists() else None
        if backup is not None:
            os.link(path, backup)
        replace_file(path, text.encode())
    except OSError as error:
        raise usage(f"Nothing was changed: {error.filename or path} cannot be written: {error.strerror}.") from None
    return backup


def _put_token(path: Path, token: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(token)


def _remark(text: str, found: ImportedConfig) -> None:
    """Print what the imported config still needs to work."""
    loaded = config.parse(text, "")
    named = {binding.agent for binding in loaded.bindings}
    named |= {one.agent for one in (*loaded.hooks.values(), *loaded.cron.values()) if one.agent}
    named |= {loaded.session.default_agent} if loaded.session.default_agent else set()
    missing = sorted(named - set(loaded.agents) - {"shell", "builtin"})
    if missing:
        say(f"not set up here yet: {', '.join(missing)}; see: interlock agents", "bold", "not set up here yet:")
    if "hooks" in found.tables or "cron" in found.tables:
        say("what hooks and cron jobs say waits for a yes until a rule lets it through: origin = \"hook\", \"cron\"",
            "bold", "waits for a yes")
