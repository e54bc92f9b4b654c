"""S1: each role of one tenant tries every operation of the route table on another tenant's objects: nothing leaks.

Another tenant's object and one that does not exist must get the same answer, by the same calls to the ledger. Within
its own tenant, each role may do what the table declares, and nothing else.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from interlock.backends.memory.ledger import MemoryLedger
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.api.table import OPERATIONS
from proof.access.populated_tenant import PUBLIC_KEY, WORDS, NamingRequest, populate, requests_of
from proof.processes.in_memory_gateway import InMemoryGateway

ROLES = ("viewer", "operator", "approver", "auditor", "admin", "owner")
RIVAL = "rival"
UNFIT = frozenset({400, 401, 404, 405, 413, 415, 422, 500})
"""Statuses of a request that did not reach its object, so that its refusal to another tenant would show nothing."""
NOT_REACHED = frozenset({"registerPasskey", "resumeSigning", "showSigning", "auditKey", "proveInclusion",
                         "proveConsistency", "openBrowserSession", "pairRunner", "importTranscript", "labelEntry",
                         "branchTranscript", "forkSession"})
"""Operations that need what this gateway lacks: a browser, a signed log, a code, an entry of a transcript."""


class Watched(MemoryLedger):
    """Counts which calls are made, so that two answers can be shown to come the same way."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name != "calls":
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)


class Trial:
    """Asks, compares and counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.leaks: list[str] = []
        self.seen_by_rival = 0
        self.by_role = self.repeated = 0

    async def run(self) -> None:
        """Try every role on every operation; the rival itself sees its words, else the trial would show nothing."""
        ledger = Watched()
        inside = InMemoryGateway(ledger=ledger)
        keys = await inside.tenant("acme", ROLES)
        rival = await inside.tenant(RIVAL, ROLES)
        await populate(inside, RIVAL)
        for role in ROLES:
            for operation in OPERATIONS:
                for naming in requests_of(operation, RIVAL):
                    await self._compare(inside, ledger, role, keys[role], naming)
        for operation in OPERATIONS:
            if operation.method == "GET":
                for naming in requests_of(operation, RIVAL):
                    self.seen_by_rival += WORDS in (await _ask(inside, rival["owner"], naming)).text
        await inside.close()
        await self._roles()
        await self._repetitions()

    async def _compare(self, inside: InMemoryGateway, ledger: Watched, role: str, key: str, theirs: NamingRequest
                       ) -> None:
        """Compare the answer about the rival's object with the one about an object that no one has."""
        operation, what = theirs.operation, f"{role} {theirs.operation.name} {theirs[1:]}"
        missing = msgspec.convert(msgspec.to_builtins(theirs[1:]), tuple[str, dict[str, Any] | None, dict[str, str]])
        nobodys = NamingRequest(operation, *msgspec.json.decode(_nobodys(msgspec.json.encode(missing).decode())))
        first = await self._answer(inside, ledger, key, theirs)
        if WORDS in first[1] and WORDS not in str(theirs):
            self.leaks.append(f"{what}: {first[1]}")
        if operation.roles.isdisjoint({role}) and not operation.public and first[0] != 403:
            self.leaks.append(f"{what}: {first[0]} for a role that may not")
        if theirs == nobodys:
            return
        if theirs.path != nobodys.path and first[0] < 400 and operation.name != "getAuditRecord":
            self.leaks.append(f"{what}: {first[0]}")
        second = await self._answer(inside, ledger, key, nobodys)
        if (first[0], _nobodys(first[1]), first[2]) != second:
            self.leaks.append(f"{what}: {first} differs from {second}")

    async def _answer(self, inside: InMemoryGateway, ledger: Watched, key: str, naming: NamingRequest
                      ) -> tuple[int, str, list[str]]:
        self.asked += 1
        inside.clock.at_ms += 1_000  # So that each refusal leaves its record, and none differs from another by that.
        await inside.ask(key, "GET", "/v1/whoami")  # Its last use, written once a minute, is not compared.
        ledger.calls.clear()
        answer = await _ask(inside, key, naming)
        calls = [call for call in ledger.calls if call not in ("key", "tenant")]
        return answer.status_code, _without_times(answer.text), calls

    async def _roles(self) -> None:
        """Compare what each role may do in its own tenant with the table, on requests that reach their objects."""
        for operation in OPERATIONS:
            if operation.public:
                continue
            reached: set[int] = set()
            for role in ROLES:
                inside = InMemoryGateway()
                key = (await inside.tenant(OWNER_TENANT, ROLES))[role]
                await populate(inside, OWNER_TENANT)
                for naming in requests_of(operation, OWNER_TENANT):
                    self.by_role += 1
                    answer = await _ask(inside, key, naming)
                    may = role in operation.roles and not _is_above(role, naming)
                    if may is (answer.status_code == 403):
                        self.leaks.append(f"{role} {naming}: {answer.status_code} {answer.text}, declared {may}")
                    if may:
                        reached.add(answer.status_code)
                await inside.close()
            if reached <= UNFIT and operation.name not in NOT_REACHED:
                self.leaks.append(f"{operation.name}: no request reached its object: {sorted(reached)}")


    async def _repetitions(self) -> None:
        """Repeat each change of the rival's admin under its idempotency key, as people of both tenants: to none of them
        its response is repeated."""
        inside = InMemoryGateway()
        acme, rival = [await inside.tenant(name, ROLES) for name in ("acme", RIVAL)]
        await populate(inside, RIVAL)
        for operation in OPERATIONS:
            if not operation.keyed:
                continue
            for number, naming in enumerate(requests_of(operation, RIVAL)):
                inside.clock.at_ms += 10_000  # So that no rate ends the trial.
                under = {"Idempotency-Key": f"of-the-rival-{operation.name}-{number:02d}"}
                await _ask(inside, rival["admin"], naming, under)
                for key in (acme["admin"], rival["owner"]):
                    self.repeated += 1
                    answer = await _ask(inside, key, naming, under)
                    if "idempotency-replayed" in answer.headers or answer.status_code in (422, 429):
                        self.leaks.append(f"{naming} was repeated: {answer.status_code} {answer.text}")
        await inside.close()


def _is_above(role: str, naming: NamingRequest) -> bool:
    """Return whether a request of an operation that a role may use is about what only an admin may change: another
    scope than a session, or another person's key."""
    scope = (naming.body or {}).get("scope", "session")
    return (role == "operator" and scope != "session") or (
        role == "approver" and naming.operation.name == "revokeSigningKey")


async def _ask(inside: InMemoryGateway, key: str, naming: NamingRequest, headers: dict[str, str] | None = None) -> Any:
    body = {"json": naming.body} if naming.body is not None else {}
    return await inside.ask(key, naming.operation.method, "/v1" + naming.path, params=naming.query,
                            headers=headers or {}, **body)


def _nobodys(text: str) -> str:
    """Put ids that no one has in place of the rival's."""
    for theirs, nobodys in (("RIVAL", "NOBDY"), ("rival", "nobdy"), (PUBLIC_KEY, PUBLIC_KEY.replace("c", "d"))):
        text = text.replace(theirs, nobodys)
    return text


def _without_times(text: str) -> str:
    """Put a dash in place of instants, of generated ids and secrets, and of the end of a log that each read extends."""
    return re.sub(r'\d{4}-\d\d-\d\dT[\d:.]+Z|(?<=_)([0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16})|\bil[kt]_[\w-]+|'
                  r'(?<="next_cursor":")\d+', "-", text)


def run(_seed: int, _rounds: int | None) -> bool:
    """Run the trial and print what it counted."""
    trial = Trial()
    asyncio.run(trial.run())
    print(f"{len(OPERATIONS)} operations, {len(ROLES)} roles, {trial.asked} requests about another tenant's objects, "
          f"{trial.by_role} about their own, {trial.repeated} repeated ones: {len(trial.leaks)} leaks; "
          f"the rival sees its own words in {trial.seen_by_rival} answers")
    print("\n".join(trial.leaks[:20]))
    return not trial.leaks and trial.seen_by_rival > 0
