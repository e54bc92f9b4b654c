"""Resolution of names: an id, a unique prefix of it, or `@last`, in every verb alike."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from interlock.cli.display.columns import WHOLE_ID
from interlock.cli.display.terminal import one_line
from interlock.cli.exit_status import BY_STATE
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.answers import NodeList
from interlock.protocol.api.access import LIST_KEYS
from interlock.protocol.api.approvals import LIST_APPROVALS
from interlock.protocol.api.commands import LIST_COMMANDS
from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.api.runners import LIST_RUNNERS
from interlock.protocol.api.sessions import LIST_SESSIONS
from interlock.protocol.resources import Approval, Command, Node, Session
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.runner_names import runners_named
from interlock.session.keys import BadKey, agent_of, canonical_key

T = TypeVar("T")

LAST = "@last"
SHOWN = 5
"""Candidates that an ambiguous prefix lists."""
QUOTED_CHARS = 80
"""Characters of a typed name that an error repeats; an id has at most half as many."""


class IdKind(NamedTuple):
    """A kind of id: its noun, its path, its prefix, and the verb that lists it, if that is not the noun."""

    noun: str
    path: str
    prefix: str
    verb: str = ""

    @property
    def listed(self) -> str:
        """Return the verb that lists all of this kind."""
        return f"interlock {self.verb or self.noun + 's'}"


COMMAND = IdKind("task", LIST_COMMANDS.at(), "cmd_")
APPROVAL = IdKind("approval", LIST_APPROVALS.at(), "apr_")
SESSION = IdKind("session", LIST_SESSIONS.at(), "")
RUNNER = IdKind("runner", LIST_RUNNERS.at(), "rnr_")
KEY = IdKind("key", LIST_KEYS.at(), "key_")


async def command(link: GatewayLink, text: str) -> Command:
    """Find a command; `@last` is the newest execute. Raises Trouble."""
    found = await link.list(COMMAND.path, Command)
    return pick(text, [one for one in found if one.type == "execute"] if text == LAST else found, COMMAND,
                lambda one: one.id, lambda one: one.created_at)


async def live_command(link: GatewayLink, text: str) -> Command:
    """Find a command that is to be canceled; `@last` is the newest execute that has not ended. Raises Trouble."""
    if text != LAST:
        return await command(link, text)
    found = [one for one in await link.list(COMMAND.path, Command) if one.type == "execute"
             and one.state not in BY_STATE]
    if not found:
        raise Trouble("NotFound", f"No task is at work: {LAST} is the newest that has not ended.",
                      f"See: {COMMAND.listed}")
    return pick(text, found, COMMAND, lambda one: one.id, lambda one: one.created_at)


async def approval(link: GatewayLink, text: str) -> Approval:
    """Find an approval; `@last` is the newest that is pending. Raises Trouble."""
    if text == LAST:
        return _newest(await _pending(link))
    found = await link.list(APPROVAL.path, Approval)
    return pick(text, found, APPROVAL, lambda one: one.id, lambda one: one.created_at)


async def _pending(link: GatewayLink) -> list[Approval]:
    return [one for one in await link.list(APPROVAL.path, Approval) if one.state == "pending"]


def _newest(waiting: list[Approval]) -> Approval:
    if not waiting:
        raise Trouble("NotFound", f"No approval waits: {LAST} is the newest that does.", f"See: {APPROVAL.listed}")
    return max(waiting, key=lambda one: one.created_at)


async def approval_to_decide(
    link: GatewayLink, text: str, printed: frozenset[str] | None, *, blind: bool
) -> Approval:
    """Find an approval to vote on (Y-3). `@last` is refused if more than one is pending, or if the pending one is newer
    than what this terminal printed; `blind` means a vote without a question. Raises Trouble."""
    if text != LAST:
        return await approval(link, text)
    waiting = await _pending(link)
    only = _newest(waiting)
    if len(waiting) > 1:
        more = ", …" if len(waiting) > SHOWN else ""
        raise usage(f"{LAST} could be any of {len(waiting)} approvals that wait: "
                    f"{', '.join(one.id for one in waiting[:SHOWN])}{more}.", "Name one by its id.")
    if printed is None and not blind:
        return only
    if printed is None or only.id not in printed:
        raise usage(f"{LAST} is {only.id}, which this terminal has not shown.",
                    f"Read it with: interlock approvals {only.id}; then name it by its id.")
    return only


def of_session(text: str, request: Callable[[str], RequestSpec[T]]
               ) -> Callable[[GatewayLink], Coroutine[Any, Any, RequestSpec[T]]]:
    """Return a function that looks up at the gateway which session `text` names, and creates a request with its
    complete id."""
    async def looked_up(link: GatewayLink) -> RequestSpec[T]:
        return request((await session(link, text)).session_id)

    return looked_up


async def session(link: GatewayLink, text: str) -> Session:
    """Find a session by its id or key, or by the name that `--session` gave it. Raises Trouble."""
    return pick_session(text, await link.list(SESSION.path, Session))


def pick_session(text: str, found: Sequence[Session]) -> Session:
    """Choose the session that `text` names. A key precedes a beginning of an id; without its agent it must be the key
    of one agent only. Raises Trouble."""
    named = [one for one in found if one.session_key == text] or [
        one for one in found if text != LAST and _is_key_of(text, one.session_key)]
    keys = sorted({one.session_key for one in named})
    if len(keys) > 1:
        more = ", …" if len(keys) > SHOWN else ""
        raise usage(f"{text!r} names sessions of {len(keys)} agents: {', '.join(keys[:SHOWN])}{more}.",
                    "Give the whole key of one.")
    if named:  # A key means its newest session, also if an older one ended later.
        return max(named, key=lambda one: one.created_at)
    return pick(text, found, SESSION, lambda one: one.session_id, lambda one: one.updated_at)


def _is_key_of(text: str, session_key: str) -> bool:
    try:
        return canonical_key(text, agent_of(session_key)) == session_key
    except BadKey:
        return False


async def runner_id(link: GatewayLink, text: str) -> str:
    """Return the id of the paired runner that `text` names by its id, its name, or a unique beginning of either (Y-10).
    Raises Trouble."""
    if WHOLE_ID.fullmatch(text):
        return text  # It may name a revoked runner, whose sessions still exist.
    nodes = (await link.read(LIST_NODES.at(), NodeList)).nodes
    return pick_runner(text, nodes).node_id


def pick_runner(text: str, nodes: Iterable[Node]) -> Node:
    """Choose the runner that `text` names. A complete id or name precedes a beginning. Raises Trouble."""
    if not text.strip():
        raise usage("--runner is empty.", "List the runners with: interlock runners")
    hits = runners_named(text, nodes)
    if not hits:
        raise Trouble("NotFound", f"There is no runner {text!r}.", "List them with: interlock runners")
    if len(hits) > 1:
        more = ", …" if len(hits) > SHOWN else ""
        listed = ", ".join(f"{one.node_id} ({one_line(one.device_name)})" for one in hits[:SHOWN])
        raise usage(f"--runner {text!r} could be any of {len(hits)} runners: {listed}{more}.",
                    "Give its id, or more of it.")
    return hits[0]


async def full_id(link: GatewayLink, kind: IdKind, text: str | None) -> str | None:
    """Return the id that a filter names by a unique beginning, `@last` or a session's key; a complete id is not looked
    up, because its object may be deleted. Raises Trouble."""
    if text is None or WHOLE_ID.fullmatch(text):
        return text
    if kind is SESSION:
        return (await session(link, text)).session_id
    return (await command(link, text)).id if kind is COMMAND else (await approval(link, text)).id


def checked_name(noun: str, text: str, listed: str) -> str:
    """Return a name that is one segment of a path. Raises Trouble for one that cannot exist."""
    if not text.strip() or "/" in text:
        raise Trouble("NotFound", f"There is no {noun} {quoted(text)}.", f"List them with: {listed}")
    return text


def quoted(text: str) -> str:
    """Return a typed name as an error repeats it: in quotes, and not longer than a line or two."""
    return repr(text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]}…")


def pick(text: str, found: Iterable[T], kind: IdKind, name: Callable[[T], str], age: Callable[[T], str]) -> T:
    """Choose what `text` names among the found ones. Raises Trouble."""
    if not text.strip():
        raise usage(f"An empty {kind.noun} id names nothing.", f"See: {kind.listed}")
    everything = sorted(found, key=age, reverse=True)
    if text == LAST:
        if not everything:
            raise Trouble("NotFound", f"There is no {kind.noun} that {LAST} could be.",
                          f"See: {kind.listed}")
        return everything[0]
    wanted = text.lower()
    hits: list[T] = []
    for one in everything:
        full = name(one).lower()
        if full == wanted:
            return one
        if full.startswith(wanted) or full.removeprefix(kind.prefix).startswith(wanted):
            hits.append(one)
    if len(hits) == 1:
        return hits[0]
    if not hits:
        raise Trouble("NotFound", f"There is no {kind.noun} {quoted(text)}.", f"List them with: {kind.listed}")
    more = ", …" if len(hits) > SHOWN else ""
    raise usage(f"{quoted(text)} is the beginning of {len(hits)} {kind.noun}s: "
                f"{', '.join(name(one) for one in hits[:SHOWN])}{more}.", "Give more of the id.")
