"""The requirements of the specifications, each with its clause and its status in Interlock.

The register is `spec/requirements.toml` in the repository; an installed package has a copy beside this module.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

PACKAGED = Path(__file__).parent / "requirements.toml"
SOURCE = Path(__file__).parents[3] / "spec" / "requirements.toml"

Status = Literal["carried", "partial", "later"]


class Requirement(msgspec.Struct, frozen=True):
    """One requirement. `reason` names what is missing, and is present unless `status` is `carried`."""

    id: str
    source: Literal["rawp", "racp", "sessions", "running", "hold", "face", "doors", "console"]
    status: Status
    clause: str
    reason: str | None = None


class RegisterMissing(Exception):
    """The package was installed without its register."""


def requirements() -> list[Requirement]:
    """Read the register, in its own order. Raises RegisterMissing."""
    # In a source tree its own file applies: a copy beside this module could be outdated.
    path = SOURCE if SOURCE.is_file() else PACKAGED
    try:
        rows = cast("dict[str, dict[str, Any]]", tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise RegisterMissing(f"{path} is not there.") from None
    return [msgspec.convert({"id": name, **row}, Requirement) for name, row in rows.items()]
