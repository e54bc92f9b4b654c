"""`interlock status`: first what waits for this person, then what runs, and the gateway with its runners (G-7)."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.cli.approvals.left_to_others import NOTHING_LEFT, LeftToOthers, left_to_others, pending_approvals
from interlock.cli.config.place import LOCAL_RUNNER, NOWHERE, Here, up_is_starting
from interlock.cli.display.terminal import one_line, print_sentence
from interlock.cli.display.values import ago, count, seconds_from_now
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.operations.cluster_health import cluster_lines
from interlock.cli.operations.drain_line import drained
from interlock.cli.operations.ledger_gaps import restored_lines
from interlock.cli.options import Json
from interlock.cli.sessions.session_list import context, state_text
from interlock.cli.verb_answer import VerbAnswer, answered
from interlock.cli.verb_error import Trouble
from interlock.command.card.votes import ANOTHER
from interlock.protocol.answers import Status
from interlock.protocol.api.gateway import GET_STATUS_OF_GATEWAY
from interlock.protocol.api.sessions import LIST_SESSIONS
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.resources import Approval, Node, Session
from interlock.sdk.requests.base import read
from interlock.sdk.requests.gateway import ready

LABEL_CELLS = 17
"""Width to which labels are padded."""
CONTESTED_S = 3_600.0
"""How long two processes with one token are reported after the last of them attached."""


def status(*, json: Json = False, where: Here = NOWHERE) -> int:
    """Show what waits for you, what runs, and the gateway and its runners."""
    async def find(link: GatewayLink) -> tuple[VerbAnswer[Status], list[Session], LeftToOthers, int, bool]:
        answer = await answered(link, read(GET_STATUS_OF_GATEWAY))
        newest = await link.list(LIST_SESSIONS.at(), Session, most=1)
        waiting = await pending_approvals(link) if not json and answer.value().approvals_pending else []
        return answer, newest, await left_to_others(link, waiting), _waiting_in_turn(waiting), (
            json or await _accepts_writes(link))

    answer, newest, others, in_turn, writes = ask_gateway(where, find, retries=False)
    starting = answer.link.is_local and up_is_starting(where.directory())

    def show(now: Status) -> None:
        for line in status_lines(now, newest, answer.link.address.url, others, starting=starting,
                                 in_turn=in_turn, writes=writes):
            print_sentence(line, indent=LABEL_CELLS)

    return answer.print(show, json=json)


def status_lines(now: Status, newest: list[Session], url: str, others: LeftToOthers = NOTHING_LEFT, *, starting: bool,
                 in_turn: int = 0, writes: bool = True) -> Iterator[str]:
    """Write the lines of `status`, each behind a label of `LABEL_CELLS`. What is in `others` waits for other
    people than the one who reads it. `in_turn` is the number of started tasks that wait for an approval: the gateway
    counts them as running. `writes` is whether the ledger accepts writes."""
    yield f"waiting for you  {_waiting(now.approvals_pending, len(others.approvals))}"
    working = ", ".join(f"{_many(number)} {state.replace('_', ' ')}"
                        for state, number in _task_counts(now.commands, in_turn))
    yield f"tasks            {working or 'none at work'}"
    yield f"sessions         {_many(now.sessions)}"
    for one in newest:
        tokens = f"{one.total_tokens:,} tokens" + (f", context {context(one)}" if one.context_tokens else "")
        name = one_line(one.session_key)
        known_by = name if one.session_id in name else f"{name} · {one.session_id}"
        yield f"last session     {known_by} · {state_text(one, others.sessions)} · {tokens}"
    if not writes:
        yield "ledger           accepts no writes, so no change is accepted; see: interlock doctor"
    if now.unsigned is not None:
        yield f"audit log        cannot be signed, so no new task is taken: {one_line(now.unsigned, 1_000)}"
    for line in restored_lines(now.restored) if now.restored is not None else ():
        yield f"older ledger     {line}"
    for one in now.drains:
        yield f"drain            {drained(one)}"
    for node in now.runners:
        yield f"runner           {runner_line(node, starting=starting)}"
    if not now.runners:
        yield "runner           none is paired; start one with: interlock up"
    yield f"gateway          {url} · version {now.version} · your role is {now.role}"
    yield from cluster_lines(now.cluster) if now.cluster is not None else ()
    if now.state_dir:
        yield f"state directory  {now.state_dir}"
        yield f"store            {now.store_path}"


def runner_line(node: Node, *, starting: bool = False) -> str:
    """Return name, status, agents and roots, as far as they are known. `starting` means that `interlock up` has just
    begun: its runner is offline, but about to connect."""
    is_coming = starting and node.node_id == LOCAL_RUNNER and node.status == "offline"
    agents = ", ".join(str(one.get("agent_id", "?")) for one in node.agents)
    offers = agents or ("no agents" if node.status != "offline" else "")
    parts = (f"{one_line(node.device_name or node.node_id)} ({one_line(node.node_id)})",
             "starting" if is_coming else node.status, one_line(offers, 300), one_line(", ".join(node.roots), 300),
             contested(node) or "", _passed_over(node))
    return " · ".join(part for part in parts if part)


def contested(node: Node) -> str | None:
    """Return that two processes use a runner's token, as a phrase; None if they did not lately."""
    if node.contested_at is None or seconds_from_now(node.contested_at) < -CONTESTED_S:
        return None
    return f"two processes use its token and replace each other's links, last {ago(node.contested_at)}"


def _passed_over(node: Node) -> str:
    frames = node.frames_passed_over or 0
    return f"{count(frames, 'frame')} passed over, since they name no session of it" if frames else ""


def _waiting(pending: int, others: int) -> str:
    """Return how many of the pending approvals wait for this person, and how many for others."""
    more = "+" if pending >= PAGE_MAX else ""
    own = pending - others
    shown = f"{own}{more} approval{'' if own == 1 and not more else 's'}" if own or more else "nothing"
    left = f"; {others} {ANOTHER}" if others else ""
    return f"{shown}{left}{' (interlock approvals)' if pending else ''}"


async def _accepts_writes(link: GatewayLink) -> bool:
    """Return whether the ledger accepts writes; True if the gateway does not answer that, as behind a proxy that passes
    on the API alone."""
    try:
        return (await link.ask(ready())).ledger == "writes"
    except Trouble:
        return True


def _waiting_in_turn(pending: list[Approval]) -> int:
    """Return the number of started tasks that wait for an approval: a tool call of theirs does."""
    return len({one.command_id for one in pending if one.door == "tool" and one.command_id is not None})


def _task_counts(commands: dict[str, int], in_turn: int) -> list[tuple[str, int]]:
    """Return the number of tasks by state, in alphabetic order; `in_turn` of the running ones are pending approval. A
    count at its maximum of one page stays as it is, since the rest is unknown."""
    running = commands.get("running", 0)
    moved = min(in_turn, running) if running < PAGE_MAX else 0
    counts = {**commands, "running": running - moved,
              "pending_approval": commands.get("pending_approval", 0) + moved}
    return sorted((state, number) for state, number in counts.items() if number)


def _many(number: int) -> str:
    """Format a count of the gateway's status; its maximum is one page."""
    return f"{PAGE_MAX}+" if number >= PAGE_MAX else str(number)
