"""`interlock conformance`: show which requirements Interlock fulfils, and check other implementations."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import msgspec
from cyclopts import Parameter

from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import print_json, print_sentence, print_table, result, say
from interlock.cli.display.values import count
from interlock.cli.exit_status import ExitStatus
from interlock.cli.options import Json
from interlock.cli.verb_error import Trouble, usage
from interlock.conformance.hands import Hand, ProgramHand, RestHand
from interlock.conformance.register import RegisterMissing, Requirement, requirements
from interlock.conformance.steps import ConformanceFinding

COLUMNS = Layout(text=("CLAIM", "CONVERSATION"), extra=("SHOWS",), drop=("CLAIM",))
OUTCOMES = {"held": "green", "broken": "red", "not run": "bold"}


def conformance(
    *,
    master: Annotated[str | None, Parameter(help="Check the gateway at this URL, acting as its runner: "
                                                 "ws://HOST:PORT/rawp.")]
    = None,
    runner: Annotated[bool, Parameter(help="Check a runner, acting as the gateway that it connects to.")] = False,
    token_file: Annotated[Path | None, Parameter(help="File with the runner's token; with --runner, the "
                                                      "token that the runner must send (default: any).")] = None,
    runner_id: Annotated[str, Parameter(help="The id of the token's runner (default: local).")] = "local",
    key_file: Annotated[Path | None, Parameter(help="File with a key for the gateway's REST API, to send "
                                                    "prompts, answers and cancels.")] = None,
    hand: Annotated[str | None, Parameter(help="Program that does so instead; its last argument is prompt, "
                                               "allow, deny or cancel.")] = None,
    port: Annotated[int, Parameter(help="Port to listen on for the runner; 0 chooses a free one.")] = 0,
    agent: Annotated[str, Parameter(help="Agent of the runner to open (default: shell).")] = "shell",
    prompt: Annotated[str, Parameter(help="A prompt that makes this agent request one tool "
                                          "call (default: echo conformance).")] = "echo conformance",
    quick: Annotated[bool, Parameter(help="Omit the checks that wait ten seconds.")] = False,
    json: Json = False,
) -> int:
    """Show which requirements hold and which do not yet, or check another implementation."""
    from interlock.conformance import rounds

    if master is not None and runner:
        raise usage("--master and --runner exclude each other.", "Check one side after the other.")
    if master is not None:
        if token_file is None:
            raise usage("--master needs the runner's token.", "Name its file with --token-file.")
        found = asyncio.run(rounds.with_master(
            _checked(master), _secret(token_file), runner_id, _hand(master, key_file, hand), slow=not quick))
        return _findings(found, json=json)
    if runner:
        token = _secret(token_file) if token_file is not None else None
        try:
            found = asyncio.run(rounds.with_runner(
                "127.0.0.1", port, token, agent, prompt, slow=not quick,
                listening=lambda url: say(f"waiting for the runner at {url}")))
        except (OSError, OverflowError) as error:
            raise usage(f"Port {port} is not to be had: {error}.", "Name another with --port; 0 takes one.") from None
        return _findings(found, json=json)
    return _register(json=json)


def _register(*, json: bool) -> int:
    try:
        rows = requirements()
    except RegisterMissing as error:
        raise Trouble("RegisterMissing", str(error), "Install the package again.") from None
    if json:
        print_json(msgspec.json.encode({"requirements": rows, "totals": _totals(rows)}))
        return ExitStatus.DONE
    for number, source, status, clause in (("ID", "OF", "STATUS", "CLAUSE"), *(
            (one.id, one.source, one.status, one.clause) for one in rows)):
        result(f"{number:<5} {source:<9} {status:<8} {clause}")  # Complete clauses: a table's cells would be cut.
    gaps = [one for one in rows if one.status != "carried"]
    result("\nGaps:")
    for one in gaps:
        print_sentence(f"{one.id} ({one.status}): {one.reason}")
    say(", ".join(f"{number} {status}" for status, number in _totals(rows).items()))
    return ExitStatus.DONE


def _totals(rows: list[Requirement]) -> dict[str, int]:
    return {status: sum(one.status == status for one in rows) for status in ("carried", "partial", "later")}


def _findings(found: list[ConformanceFinding], *, json: bool) -> int:
    broken = sum(one.outcome == "broken" for one in found)
    if json:
        print_json(msgspec.json.encode({"ok": not broken, "findings": [one._asdict() for one in found]}))
        return ExitStatus.FAILED if broken else ExitStatus.DONE
    print_table([[one.outcome, one.name, " ".join(one.requirements), one.claim] for one in found],
                ("OUTCOME", "CONVERSATION", "SHOWS", "CLAIM"), COLUMNS)
    for one in found:
        if one.outcome != "held":
            say(f"{one.outcome}: {one.name}: {one.found}", OUTCOMES[one.outcome])
    held = sum(one.outcome == "held" for one in found)
    say(f"{held} of {count(len(found), 'conversation')} held, {broken} broken, {len(found) - held - broken} not run")
    return ExitStatus.FAILED if broken else ExitStatus.DONE


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("ws", "wss") and bool(parts.hostname)
    except ValueError:
        good = False
    if not good:
        raise usage(f"{url!r} is not the URL of a link.", "Write it as ws://HOST:PORT/rawp, or wss://.")
    return url


def _hand(master: str, key_file: Path | None, program: str | None) -> Hand | None:
    if program is not None:
        if not program.split():
            raise usage("--hand names no program.", "Name one, with its first arguments.")
        return ProgramHand(program)
    if key_file is None:
        return None
    parts = urlsplit(master)
    return RestHand(urlunsplit(("https" if parts.scheme == "wss" else "http", parts.netloc, "", "", "")),
                    _secret(key_file))


def _secret(path: Path) -> str:
    try:
        found = path.expanduser().read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is not text"
        raise usage(f"{path} cannot be read: {reason}.", "Name a file that holds the token or key alone.") from None
    if not found:
        raise usage(f"{path} is empty.", "Name a file that holds the token or key alone.")
    return found
