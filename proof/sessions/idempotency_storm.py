"""R1: the same POST from many clients at once creates one command; every response is that command or a 409 (M-1,
M-2)."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import httpx2

from proof.processes.stack import Stack

KEYS = 50
TIMES = 200
UNLIMITED = "\n[rates]\nprincipal_a_minute = 0\ntenant_a_minute = 0\n"
"""The rates of K-3 are another matter: they would answer most of the storm with 429."""
AT_ONCE = 100
"""Connections that the storm uses."""


class Storm(NamedTuple):
    """What a storm showed. `answers` counts statuses; `wrong` has a sentence for each thing that should not be."""

    answers: Counter[int]
    replayed: int
    commands: int
    wrong: list[str]


async def storm(http: httpx2.AsyncClient, keys: int, times: int, target: dict[str, str]) -> Storm:
    """`times` identical POSTs for each of `keys` keys, all at once; then another body under each key."""
    answers: Counter[int] = Counter()
    wrong: list[str] = []
    replayed = 0
    room = asyncio.Semaphore(AT_ONCE)
    names = [f"storm-{secrets.token_hex(8)}-{number}" for number in range(keys)]
    bodies: dict[str, set[tuple[bytes, str]]] = {name: set() for name in names}

    async def post(name: str, text: str) -> httpx2.Response:
        payload = {"messages": [{"role": "user", "content": [{"contentType": "text", "value": text}]}]}
        async with room:
            return await http.post("/v1/commands", json={"type": "execute", "target": target, "payload": payload},
                                   headers={"Idempotency-Key": name})

    async def once(name: str) -> None:
        nonlocal replayed
        answer = await post(name, name)
        answers[answer.status_code] += 1
        if answer.status_code == 202:
            bodies[name].add((answer.content, answer.headers["Location"]))
            replayed += answer.headers.get("Idempotency-Replayed") == "true"
        elif answer.status_code != 409 or answer.json()["code"] != "IdempotencyKeyInUse" \
                or "Retry-After" not in answer.headers:
            wrong.append(f"{name}: {answer.status_code} {answer.text[:200]}")

    await asyncio.gather(*(once(name) for _ in range(times) for name in names))
    for name in names:
        if len(bodies[name]) != 1:
            wrong.append(f"{name}: {len(bodies[name])} different answers")
        again, other = await post(name, name), await post(name, "another body")
        if (again.content, again.headers.get("Location", "")) not in bodies[name] or again.status_code != 202:
            wrong.append(f"{name}: the answer after the storm is another one")
        if other.status_code != 422 or other.json()["code"] != "IdempotencyKeyReused":
            wrong.append(f"{name}: another body was answered {other.status_code}")
    made, cursor = 0, None
    while True:
        asked = {"limit": "500", **({"cursor": cursor} if cursor else {})}
        page = (await http.get("/v1/commands", params=asked)).json()
        made += sum(item.get("idempotency_key") in (None, *names) for item in page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    if made != keys:
        wrong.append(f"{made} commands were made for {keys} keys")
    return Storm(answers, replayed, made, wrong)


async def _whole(stack: Stack) -> Storm:
    async with httpx2.AsyncClient(base_url=stack.url, headers=stack.headers, timeout=120) as http:
        return await storm(http, KEYS, TIMES, {"agent_id": "shell", "workspace": str(stack.workspace)})


def run(seed: int, rounds: int | None) -> bool:
    """The whole storm against a gateway process. There is nothing to draw: `seed` and `rounds` change nothing."""
    with tempfile.TemporaryDirectory(prefix="interlock-storm-") as place:
        stack = Stack(Path(place), UNLIMITED)
        try:
            stack.up()
            seen = asyncio.run(_whole(stack))
        finally:
            stack.down()
    print(f"{KEYS} keys x {TIMES} identical POSTs: {seen.commands} commands; answers "
          f"{dict(sorted(seen.answers.items()))}, {seen.replayed} replayed")
    for sentence in seen.wrong[:20]:
        print("  !", sentence)
    print("passed" if not seen.wrong else "FAILED")
    return not seen.wrong


