"""`interlock contexts`: the gateways that this person is logged in to, and the one that verbs use (Y-11)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli.config.place import OnHost, running_gateway
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import print_json, print_sentence, print_table, result, say
from interlock.cli.display.values import until
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link import contexts
from interlock.cli.link.contexts import LOCAL, Context, Contexts
from interlock.cli.options import Json, State
from interlock.cli.verb_error import usage
from interlock.protocol.clock import iso

COLUMNS = Layout(text=("GATEWAY", "DIRECTORY"), extra=("DIRECTORY",), drop=("DIRECTORY", "LOGIN"))

Name = Annotated[str, Parameter(name="NAME", help=f"The context; `{LOCAL}` is the gateway of this machine.")]


def listing(*, json: Json = False, state: State = None) -> int:
    """List the gateways that you logged in to; no credential is shown."""
    place = OnHost(state).directory()
    known = contexts.read(place)
    running = running_gateway(place)
    if json:
        rows = [{"name": one.name, "url": one.url, "means": one.means, "current": one.name == known.current,
                 "directory": one.directory or None, "logged_in": bool(one.credential),
                 "ends_at": iso(one.ends_ms) if one.ends_ms is not None else None} for one in known.known]
        print_json(msgspec.json.encode({"current": known.current, "contexts": rows}))
        return ExitStatus.DONE
    local = ["*" if known.current == LOCAL else "", LOCAL, running.url if running is not None else "none runs", "", ""]
    print_table([local, *([_mark(one, known), one.name, one.url, _login(one), one.directory] for one in known.known)],
                ("", "CONTEXT", "GATEWAY", "LOGIN", "DIRECTORY"), COLUMNS)
    return ExitStatus.DONE


def use(
    name: Name,
    /,
    *,
    directory: Annotated[str | None, Parameter(help="The default workspace for tasks there, on the runner's "
                                                    "host; \"\" for the current directory.")] = None,
    state: State = None,
) -> int:
    """Make another gateway the one that verbs go to."""
    place = OnHost(state).directory()
    if directory and not directory.startswith("/"):
        raise usage(f"The directory {directory!r} is not absolute.", "Write it as it is on the runner's host.")
    with contexts.changing(place):
        known = contexts.read(place)
        if name == LOCAL:
            if directory is not None:
                raise usage(f"The context {LOCAL} has no directory: it is the one that you are in.", "Leave it out.")
        elif directory is not None:
            known = known.with_(msgspec.structs.replace(known.named(name), directory=directory))
        else:
            known.named(name)
        contexts.write(place, known.using(name))
    result(name)
    return ExitStatus.DONE


def remove(name: Name, /, *, state: State = None) -> int:
    """Forget a gateway and the credential for it."""
    place = OnHost(state).directory()
    if name == LOCAL:
        raise usage(f"The context {LOCAL} is the gateway of this machine, and cannot be removed.")
    with contexts.changing(place):
        known = contexts.read(place)
        had = known.named(name)
        contexts.write(place, known.without(name))
    print_sentence(f"{name} is removed")
    if had.credential:
        say("its credential is forgotten here, and not ended there: `interlock logout` does both", "dim")
    return ExitStatus.DONE


def _mark(context: Context, known: Contexts) -> str:
    return "*" if context.name == known.current else ""


def _login(context: Context) -> str:
    if not context.credential:
        return "logged out"
    if context.renewal is not None:
        return "issuer, renewed"
    left = f" {until(iso(context.ends_ms))}" if context.ends_ms is not None else ""
    return f"{context.means}{left}"
