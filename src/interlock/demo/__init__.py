"""`interlock demo`: follow a command through the whole system, with a cut link, and check the result."""

from __future__ import annotations


def main(agent: str | None = None, as_json: bool = False, sabotage: str | None = None) -> int:
    """Run the demonstration; return the exit status: 0 if every claim was verified, else 1.

    `agent` names a real agent instead of `shell`; `sabotage` is one of `drop-frame`, `double-frame`, `flip-audit`,
    `auto-allow`, each of which must end with 1. 2 is a wrong argument, 130 an interruption.
    """
    from interlock.demo.stage import run

    return run(agent, as_json, sabotage)
