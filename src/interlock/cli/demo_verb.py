"""`interlock demo`: start the demo, which is a separate program."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from interlock.cli.verb_error import usage

DEMO = "interlock.demo"
SABOTAGES = ("drop-frame", "double-frame", "flip-audit", "auto-allow")


def demo(
    *,
    agent: Annotated[str | None, Parameter(help="Use this agent instead of the one that needs no model.")] = None,
    json: Annotated[bool, Parameter(help="Print what was found as one JSON document.")] = False,
    sabotage: Annotated[str | None, Parameter(help=f"Break it on purpose: {', '.join(SABOTAGES)}.")] = None,
) -> int:
    """Demonstrate Interlock in a temporary directory."""
    if sabotage is not None and sabotage not in SABOTAGES:
        raise usage(f"There is no sabotage {sabotage!r}.", f"Known: {', '.join(SABOTAGES)}.")
    # Imported by name: the verbs must not depend on the demo.
    main: Callable[..., int] = importlib.import_module(DEMO).main
    return main(agent=agent, as_json=json, sabotage=sabotage)
