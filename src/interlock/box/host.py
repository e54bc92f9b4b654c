"""The capabilities of this host, found out once in a child process (H-15)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from interlock.box import ground
from interlock.box.spec import BoxSpec
from interlock.box.walls import Kind

TRY_TIMEOUT_S = 20.0
"""A host that has not answered within this counts as one without walls."""


class Host(NamedTuple):
    """The walls that work here, the best one first, and why the others do not."""

    kinds: tuple[Kind, ...]
    missing: dict[str, str] = {}  # noqa: RUF012 - never changed in place
    programs: str | None = "not tried"
    """Why programs cannot be held here, behind the best wall (H-16); None if they can."""

    network: str | None = "not tried"
    """Why an agent cannot have a network of its own here (H-19); None if it can."""
    no_overlay: str = "it was not tried"
    """Why changes cannot be staged here (H-17); "" if they can."""

    def choose(self, spec: BoxSpec) -> Kind:
        """Return the wall for an agent; `none` if the wanted kind is missing, or none is wanted."""
        if spec.walls == "best" and spec.changes == "staged":
            return "namespace" if "namespace" in self.kinds else "none"
        if spec.walls == "best" and spec.network != "all" and self.network is None and "namespace" in self.kinds:
            return "namespace"
        if spec.walls == "best":
            return self.kinds[0] if self.kinds else "none"
        return spec.walls if spec.walls in self.kinds else "none"

    @property
    def why_none(self) -> str | None:
        """Return one sentence on why no wall works here; None if one does."""
        if self.kinds:
            return None
        if "platform" in self.missing:
            return self.missing["platform"]
        namespace, landlock = (self.missing.get(kind, "not tried") for kind in ground.KINDS)
        return f"this host can raise no walls: no mount namespace ({namespace}), no Landlock ({landlock})"


def survey(parent: str | None = None) -> Host:
    """Try each wall, and an overlay, on a new directory in `parent`, else among the temporary files, in some 50 ms.
    Never raises."""
    if sys.platform != "linux":
        return Host((), {"platform": "walls need Linux; here agents can read every file of the runner's user"})
    try:
        with tempfile.TemporaryDirectory(prefix=".interlock-walls-", dir=parent) as directory:
            Path(directory, "probe").touch()
            ran = subprocess.run([sys.executable, "-I", "-S", ground.__file__, str(Path(directory).resolve())],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TRY_TIMEOUT_S,
                                 check=True)
    except (OSError, subprocess.SubprocessError) as failed:
        return Host((), dict.fromkeys(ground.KINDS, f"it could not be tried: {failed}"))
    missing = dict(line.split("\t", 1) for line in ran.stdout.splitlines() if "\t" in line)
    programs = missing.pop(ground.PROGRAMS, "not tried") or None
    network = missing.pop(ground.NETWORK, "not tried") or None
    known: tuple[Kind, ...] = ("namespace", "landlock")
    kinds: list[Kind] = sorted((kind for kind in known if missing.get(kind) == ""), key=list(missing).index)
    no_overlay = missing.pop(ground.OVERLAY, "it was not tried")
    return Host(tuple(kinds), {kind: why for kind, why in missing.items() if why}, programs, network, no_overlay)
