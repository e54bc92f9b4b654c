"""Interlock's own agent program: it supports ACP over stdio, uses no model, and runs the prompt's lines as commands.

It asks before each line runs, so a shell becomes approved and audited remote execution. None of its modules is imported
before it runs.
"""

from __future__ import annotations

import sys

USAGE = """\
usage: interlock-shell-agent

An agent that supports the Agent Client Protocol on standard input and output. A runner starts it; it is
not useful at a terminal. It runs each line of a prompt as a shell command in the session's workspace,
asks permission for each, streams the output and stops at the first failure."""


def main(argv: list[str] | None = None) -> int:
    """Serve one ACP connection on stdin and stdout. Return the exit status: 0 at end of input, 2 for wrong usage."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if arguments:
        print(f"error: this program takes no arguments, but got {arguments[0]!r}.\n{USAGE}", file=sys.stderr)
        return 2
    from interlock.shell_agent.serve import serve_stdio

    return serve_stdio()
