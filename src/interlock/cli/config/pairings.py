"""Pairings of this host's runner with gateways: one record and one token each, in `<state>/runner` (L-3, D-5).

The first pairing is `runner.json` with `paired.token`; each further one has a directory under `gateways`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.cli.config.place import LOCAL_HOME, RUNNER_DIRECTORY, write_private
from interlock.cli.verb_error import usage

RUNNER = "runner"
MORE = "runner/gateways"
PAIRED_FILE = "runner.json"
PAIRED_TOKEN_FILE = "paired.token"


class Paired(msgspec.Struct, frozen=True, omit_defaults=True):
    """`runner.json`: a runner's registration with one gateway; the token is stored separately."""

    url: str
    runner_id: str
    ca: str = ""
    """Path of the CA that was named at the pairing."""
    home: str = ""
    """In the first pairing: the directory of the outbox, if it is not named by the runner_id."""


class StoredPairing(NamedTuple):
    """A pairing and the path of its files."""

    paired: Paired
    directory: Path

    @property
    def token_file(self) -> Path:
        """Return the path of the token, mode 0600."""
        return self.directory / PAIRED_TOKEN_FILE


def pairings(state: Path) -> list[StoredPairing]:
    """Read the pairings of this host, the first one in front; an empty list if there are none. Raises Trouble."""
    more = sorted(path.parent for path in (state / MORE).glob(f"*/{PAIRED_FILE}"))
    return [StoredPairing(paired, place) for place in (state / RUNNER, *more) if (paired := _read(place)) is not None]


def home_of(found: list[StoredPairing]) -> str:
    """Return the outbox directory under `<state>/runner`: that of the first pairing, which may have been renewed."""
    first = found[0].paired
    return first.home or first.runner_id


def homes(directory: Path) -> list[Path]:
    """Return where a runner of this state directory may listen: the paired runner's directory, and that of `up`."""
    found = pairings(directory)
    own = [directory / RUNNER_DIRECTORY / home_of(found)] if found else []
    return [*own, directory / LOCAL_HOME]


def place_for(state: Path, url: str) -> tuple[Path, StoredPairing | None]:
    """Return the directory for a pairing with `url`, and the pairing that it replaces. Raises Trouble."""
    found = pairings(state)
    for known in found:
        if known.paired.url == url:
            return known.directory, known
    if not any(known.directory == state / RUNNER for known in found):
        return state / RUNNER, None
    return state / MORE, None


def keep(state: Path, fresh: Paired, token: str) -> StoredPairing | None:
    """Write a pairing; one with the same gateway is replaced, and returned. Raises Trouble."""
    directory, before = place_for(state, fresh.url)
    if directory == state / MORE:
        directory /= fresh.runner_id
    found = pairings(state)
    if before is not None and before.directory == state / RUNNER and len(found) > 1:
        # This outbox also has the other gateways' cursors, and the sessions that they know.
        fresh = msgspec.structs.replace(fresh, home=home_of(found))
    write_private(directory / PAIRED_TOKEN_FILE, token.encode() + b"\n")
    write_private(directory / PAIRED_FILE, msgspec.json.encode(fresh))
    return before


def drop(state: Path, pairing: StoredPairing) -> None:
    """Remove a pairing. If it was the first, the next one becomes the first, so that the outbox keeps its path."""
    found = pairings(state)
    if pairing.directory != state / RUNNER:
        shutil.rmtree(pairing.directory)
        return
    rest = [one for one in found if one.directory != pairing.directory]
    if not rest:
        (pairing.directory / PAIRED_FILE).unlink()
        pairing.token_file.unlink(missing_ok=True)
        return
    successor = rest[0]
    token = successor.token_file.read_bytes()
    moved = msgspec.structs.replace(successor.paired, home=home_of(found))
    write_private(pairing.token_file, token)
    write_private(pairing.directory / PAIRED_FILE, msgspec.json.encode(moved))
    shutil.rmtree(successor.directory)


def _read(directory: Path) -> Paired | None:
    path = directory / PAIRED_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Paired)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise usage(f"{path} cannot be read: {error}.", "Pair again with: interlock runner pair CODE --url URL") \
            from None
