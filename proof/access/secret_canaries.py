"""S7: a thousand secrets, each used or misplaced in some way; none is in logs, audit, refusals or the ledger."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from interlock import log
from interlock.config import Config, RatesSection
from proof.processes.in_memory_gateway import InMemoryGateway

CANARIES = 1_000
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Trial:
    """Plants canaries through the API and looks for them in everything that is stored or sent to others."""

    def __init__(self, seed: int, count: int = CANARIES) -> None:
        self._random = random.Random(seed)
        self._count = count
        self.canaries: list[str] = []
        self.found: list[str] = []
        self._refusals: list[str] = []

    async def run(self) -> None:
        """Plant, then look."""
        inside = InMemoryGateway(Config(rates=RatesSection(refused_a_minute=0, principal_a_minute=0,
                                                           tenant_a_minute=0)))
        keys = await inside.tenant("acme", ("owner", "viewer"))
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "log"
            file = log.configure(path)
            try:
                for number in range(self._count):
                    inside.clock.at_ms += 1_000
                    await self._plant(inside, keys, number)
            finally:
                file.close()
                structlog.reset_defaults()
            audit = [record.body.decode() for tenant in await inside.ledger.audit_tenants()
                     for record in await inside.ledger.audit(tenant, 0, 10_000)]
            self._look("logs", path.read_text())
            self._look("audit", "\n".join(audit))
            self._look("refusals", "\n".join(self._refusals))
            self._look("ledger", repr(vars(inside.ledger)))
        await inside.close()

    async def _plant(self, inside: InMemoryGateway, keys: dict[str, str], number: int) -> None:
        prefix = ("ilk_", "ilr_", "ilt_", "Bearer ", "eyJ")[number % 5]
        body = "".join(self._random.choices(_ALPHABET, k=43))
        secret = f"eyJ{body}.{body[::-1]}.{body[5:]}" if prefix == "eyJ" else prefix + body
        self.canaries.append(body[:20])
        token = secret.removeprefix("Bearer ")
        owner = keys["owner"]
        ways: list[Callable[[], Any]] = [
            lambda: inside.ask(token, "GET", "/v1/whoami"),
            lambda: inside.ask(owner, "GET", f"/v1/commands/{token}"),
            lambda: inside.ask(owner, "GET", "/v1/commands", params={"key": secret}),
            lambda: inside.ask(owner, "GET", "/v1/commands", params={secret: "x"}),
            lambda: inside.ask(keys["viewer"], "GET", "/v1/audit", headers={"User-Agent": secret}),
            lambda: inside.ask(owner, "POST", "/v1/commands", json={"type": "execute", "target": {secret: secret}}),
            lambda: inside.ask(owner, "POST", "/v1/commands", json={"type": secret, "target": {}}),
            lambda: inside.ask(owner, "POST", "/v1/runners/pair", json={"code": secret[:60]}),
            lambda: inside.ask(owner, "POST", "/v1/commands", content=secret.encode(),
                               headers={"Content-Type": "application/json"}),
            lambda: inside.ask(owner, "GET", "/v1/commands", params={"cursor": secret}),
        ]
        answer = await ways[number % len(ways)]()
        if answer.status_code >= 400:
            self._refusals.append(answer.text)
        if number % 10 == 0:
            made = await inside.ask(owner, "POST", "/v1/keys", json={
                "principal": {"type": "user", "id": "ann"}, "roles": ["viewer"]})
            self.canaries.append(made.json()["key"])
            structlog.get_logger("proof").warning("a_careless_line", detail=f"sent {secret}", held={"inner": [secret]})

    def _look(self, where: str, text: str) -> None:
        self.found += [f"{where}: {canary}" for canary in self.canaries if canary in text]


def run(seed: int, rounds: int | None) -> bool:
    """Run the trial and print what it counted."""
    trial = Trial(seed, rounds or CANARIES)
    asyncio.run(trial.run())
    print(f"{len(trial.canaries)} canaries, {len(trial.found)} found in logs, audit, refusals or the ledger")
    print("\n".join(trial.found[:20]))
    return not trial.found
