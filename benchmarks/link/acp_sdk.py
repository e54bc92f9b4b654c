"""The same events over the ACP Python SDK's WebSocket: neither durable nor acknowledged, and one reader."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from acp import connect_to_agent, schema
from acp.helpers import text_block
from acp.ws import create_websocket_stream


class Counting:
    """A client of the SDK that counts the messages of the agent."""

    def __init__(self) -> None:
        self.came = 0
        self.wanted = 0
        self.all_came = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        """Nothing is asked of the agent from here."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """One event."""
        self.came += 1
        if self.came >= self.wanted:
            self.all_came.set()


async def _measure(port: int, count: int, rounds: int) -> list[float]:
    seen: Any = Counting()
    conn = connect_to_agent(seen, await create_websocket_stream(f"ws://127.0.0.1:{port}/acp"))
    try:
        await conn.initialize(protocol_version=1, client_capabilities=schema.ClientCapabilities())
        session = await conn.new_session(cwd="/", mcp_servers=[])
        rates: list[float] = []
        for _ in range(rounds):
            seen.came, seen.wanted = 0, count
            seen.all_came.clear()
            start = time.perf_counter()
            await conn.prompt(session_id=session.session_id, prompt=[text_block(str(count))])
            await seen.all_came.wait()
            rates.append(count / (time.perf_counter() - start))
        return rates
    finally:
        await conn.close()


def updates_per_s(port: int, count: int, rounds: int) -> list[float]:
    """Updates a second from agent to client, by round."""
    return asyncio.run(_measure(port, count, rounds))
