"""`python -m benchmarks.link.acp_sdk_process`: an agent of the ACP Python SDK over its own WebSocket transport.

At a prompt "N" it sends N pieces of text, as `session/update` notifications. It runs under the gateway's own server
settings. Prints its URL once it listens; ends with SIGTERM.
"""

from __future__ import annotations

from typing import Any

import uvloop
from acp import schema
from acp.helpers import update_agent_message_text
from acp.http.asgi import create_asgi_app

from benchmarks.harness.scripted_runner import TEXT_BYTES
from interlock.gateway.server.server import serve


class ScriptedAgent:
    """Sends the requested text."""

    def on_connect(self, conn: Any) -> None:
        """Store the connection."""
        self._conn = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> schema.InitializeResponse:
        """Agree to everything."""
        return schema.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **kwargs: Any) -> schema.NewSessionResponse:
        """There is one."""
        return schema.NewSessionResponse(session_id="s")

    async def prompt(self, prompt: list[Any], session_id: str, **kwargs: Any) -> schema.PromptResponse:
        """Send this many pieces."""
        for number in range(int(prompt[0].text)):
            text = f"line {number} ".ljust(TEXT_BYTES, ".")
            await self._conn.session_update(session_id=session_id, update=update_agent_message_text(text))
        return schema.PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """Nothing is ever cancelled here."""


def main() -> None:
    """Run until SIGTERM."""
    agent: Any = ScriptedAgent  # It has the methods of an agent that this client calls.
    app: Any = create_asgi_app(lambda conn: agent())
    uvloop.run(serve(app, "127.0.0.1", 0, on_stop=lambda: None,
                     ready=lambda port: print(f"http://127.0.0.1:{port}", flush=True)))


if __name__ == "__main__":
    main()
