"""Options and arguments that several verbs have, each defined once, with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(help="Print one JSON document.")]
State = Annotated[Path | None, Parameter(help="State directory (else $INTERLOCK_STATE, else the platform's own).")]
SessionNamed = Annotated[str, Parameter(help="The session: its id, a unique beginning of it, its key, or @last.")]
Agent = Annotated[str | None, Parameter(help="Only those for this agent.")]
