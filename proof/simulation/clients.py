"""Viewers with cursors, and clients whose requests are repeated until they are answered."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.engine.viewers.stream_items import Durable
from interlock.engine.viewers.viewers import Behind
from interlock.ports.ledger import LedgerError
from proof.simulation.gateway import Answer, Gateway
from proof.simulation.network import Store
from proof.simulation.runner import AGENT

MARK = re.compile(rb"~(tn\d+)~")
"""Every text in the simulation names its owner."""
PATIENCE_S = 12.0
"""A person asks another gateway when one has not answered by then."""
ATTEMPTS = 12


class Viewer:
    """Reads one stream, at one gateway after the other, from its cursor, and checks every event."""

    def __init__(self, stream: str, tenant: str, store: Store, choose: Callable[[], Gateway],
                 draw: random.Random) -> None:
        self.stream = stream
        self.tenant = tenant.encode()
        self.cursor = 0
        self.seen = 0
        self.transients = 0
        self.faults: list[str] = []
        self.leaks: list[str] = []
        """Texts of other tenants that it was given."""
        self.gateway: Gateway | None = None
        self.leave = asyncio.Event()
        self._store = store
        self._choose = choose
        self._draw = draw

    async def run(self) -> None:
        """Read for good."""
        while True:
            gateway = self.gateway = self._choose()
            self.leave.clear()
            reading = gateway.place.start(self._read(gateway))
            left = asyncio.ensure_future(self.leave.wait())
            await asyncio.wait({reading, left}, return_when=asyncio.FIRST_COMPLETED)
            left.cancel()
            reading.cancel()
            await asyncio.sleep(self._draw.uniform(0.1, 1.0))

    def lost(self, gateway: Gateway) -> None:
        """A gateway no longer answers; without effect if the viewer has left it."""
        if self.gateway is gateway:
            self.leave.set()

    async def _read(self, gateway: Gateway) -> None:
        try:
            async with gateway.viewers.join(self.tenant.decode(), self.stream, self.cursor) as viewer:
                async for burst in viewer:
                    if self.gateway is not gateway or self.leave.is_set():
                        return  # Events of a gateway that the viewer left are not received.
                    for item in burst:
                        self._look(item)
        except (LedgerError, Behind):
            return

    def _look(self, item: Any) -> None:
        if not isinstance(item, Durable):
            self.transients += 1
            self._check_tenant(item.body)
            return
        if item.n != self.cursor + 1:
            self.faults.append(f"a viewer of {self.stream} was given {item.n} after {self.cursor}")
        self.cursor, self.seen = item.n, self.seen + 1
        kept = self._store.event(self.stream, item.n)
        if kept is None or kept.body != item.body:
            self.faults.append(f"a viewer of {self.stream} was given as {item.n} what is not in the ledger")
        self._check_tenant(item.body)

    def _check_tenant(self, body: bytes) -> None:
        for found in MARK.findall(body):
            if found != self.tenant:
                self.leaks.append(f"a text of {found.decode()} is in {self.stream} of {self.tenant.decode()}")


def prompt(tenant: str, name: str, target: dict[str, str]) -> dict[str, Any]:
    """Return the body of an execute, whose text has the client's name of it; for a session that is there it waits."""
    content = [{"contentType": "text", "value": f"~{tenant}~ {name}"}]
    body = {"type": "execute", "target": target, "payload": {"messages": [{"role": "user", "content": content}]}}
    return body | ({"on_busy": "enqueue"} if "session_id" in target else {})


class Submitted(NamedTuple):
    """A command that was acknowledged."""

    command_id: str
    tenant: str
    kind: str


class Clients:
    """All clients of the API."""

    def __init__(self, store: Store, choose: Callable[[], Gateway], draw: random.Random) -> None:
        self.acknowledged: dict[str, Submitted] = {}
        """By idempotency key."""
        self.attempted: set[str] = set()
        self.faults: list[str] = []
        self.answers: Counter[str] = Counter()
        self.votes: list[tuple[str, dict[str, Any]]] = []
        """Approvals and the votes that an answer showed in them."""
        self.yes: set[str] = set()
        """Approvals with at least one attempted grant."""
        self.under_way: set[asyncio.Task[None]] = set()
        self._store = store
        self._choose = choose
        self._draw = draw
        self._numbers = 0

    def begin(self, doing: Any) -> None:
        """Have it done beside everything else."""
        task = asyncio.ensure_future(doing)
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def execute(self, tenant: str, session_id: str | None, key: str | None = None) -> None:
        """Give a command, in a session that is there or a new one."""
        name = self._name()
        self.attempted.add(name)
        target = {"session_id": session_id} if session_id is not None else {"agent_id": AGENT}
        if key is not None:
            target["session_key"] = f"agent:{AGENT}:{key}"
        await self._give(tenant, name, prompt(tenant, name, target), "execute")

    async def cancel(self, tenant: str, command_id: str) -> None:
        """Cancel a command."""
        name = self._name()
        self.attempted.add(name)
        await self._give(tenant, name, {"type": "cancel", "target": {"command_id": command_id}}, "cancel")

    async def _give(self, tenant: str, name: str, body: Any, kind: str) -> None:
        answer = await self._until_answered("POST", "/v1/commands", tenant, name, body)
        if answer is None or answer.status != 202:
            return
        given = Submitted(answer.body["id"], tenant, kind)
        self.acknowledged[name] = given
        if self._draw.random() < 0.1:  # A client that did not receive the answer asks again.
            again = await self._until_answered("POST", "/v1/commands", tenant, name, body)
            if again is not None and (again.status != 202 or again.body["id"] != given.command_id):
                self.faults.append(f"{name} was repeated and answered with another command: {again}")

    async def vote(self, tenant: str, approval_id: str) -> None:
        """Grant or deny."""
        decision = "grant" if self._draw.random() < 0.75 else "deny"
        if decision == "grant":
            self.yes.add(approval_id)
        answer = await self._until_answered("POST", f"/v1/approvals/{approval_id}/grants", tenant, self._name(),
                                            {"decision": decision})
        if answer is not None and answer.status == 200:
            self.votes += [(approval_id, vote) for vote in answer.body["votes"]]

    async def look(self, tenant: str, session_id: str) -> None:
        """Ask for a session, which need not be there."""
        await self._until_answered("GET", f"/v1/sessions/{session_id}", tenant, "")

    async def pry(self, tenant: str, session_id: str) -> None:
        """Ask for a session of another tenant."""
        answer = await self._until_answered("GET", f"/v1/sessions/{session_id}", tenant, "")
        if answer is not None and answer.status != 404:
            self.faults.append(f"{tenant} asked for {session_id}, another's, and was answered {answer.status}")

    async def _until_answered(self, method: str, path: str, tenant: str, name: str, body: Any = None
                              ) -> Answer | None:
        for _ in range(ATTEMPTS):
            gateway = self._choose()
            asking = asyncio.ensure_future(gateway.ask(method, path, f"ilk_{tenant}", body, name))
            # A request that the client no longer waits for continues at its gateway.
            done, _late = await asyncio.wait({asking}, timeout=PATIENCE_S)
            if done and asking.exception() is None:
                answer = asking.result()
                self.answers[f"{answer.status}"] += 1
                if answer.status not in (0, 409, 500, 503) or (answer.status == 409 and method == "POST"
                                                            and answer.body["code"] != "IdempotencyKeyInUse"):
                    return answer
                if answer.status == 500:
                    self.faults.append(f"{method} {path} was answered 500: {answer.body}")
            await asyncio.sleep(self._draw.uniform(0.2, 2.0))
        self.answers["given up"] += 1
        return None

    def _name(self) -> str:
        self._numbers += 1
        return f"simulated-key-{self._numbers:07d}"
