"""`interlock demo`: the whole way of a command, with a link cut in the middle, shown and checked on this machine."""

from __future__ import annotations


def main(agent: str | None = None, as_json: bool = False, sabotage: str | None = None) -> int:
    """Run the demonstration; gives the exit status: 0 when everything that it claims was found to be so, else 1.

    `agent` names a real agent instead of `shell`; `sabotage` is one of `drop-frame`, `double-frame`, `flip-audit`,
    `auto-allow`, each of which must end with 1. 2 is a wrong argument, 130 an interruption.
    """
    from interlock.demo.stage import run

    return run(agent, as_json, sabotage)
