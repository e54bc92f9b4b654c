"""Options and arguments that several verbs have, each defined once, with its help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

Json = Annotated[bool, Parameter(help="Print one JSON document.")]
State = Annotated[Path | None, Parameter(help="State directory (else $INTERLOCK_STATE, else the platform's own).")]
SessionNamed = Annotated[str, Parameter(help="The session: its id, a unique beginning of it, its key, or @last.")]
LatestSession = Annotated[str, Parameter(help="The session: its id, a unique beginning of it, its key, or @last "
                                              "(default).")]
Agent = Annotated[str | None, Parameter(help="Only those for this agent.")]


def _directory(_: Any, tokens: Sequence[Token]) -> Path:
    """Convert a path, which must not be empty: `Path("")` would silently be the current directory."""
    if not tokens[0].value:
        raise ValueError("The path is empty. Name a directory, or leave the option out.")
    return Path(tokens[0].value)


NAMED_DIRECTORY = Parameter(converter=_directory)
"""For an option that names a directory: an empty one, of a variable that is not set, is refused."""
