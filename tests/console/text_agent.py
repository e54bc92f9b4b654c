"""An ACP agent that answers with the text of its prompt, in pieces of a few characters. A prompt that is a JSON list is
several texts, between which the agent thinks."""

from __future__ import annotations

import json

from tests.console.forging_agent import read, send

PIECE_CHARS = 7


def write(kind: str, text: str) -> None:
    for at in range(0, len(text), PIECE_CHARS):
        send(method="session/update", params={"sessionId": "s", "update": {
            "sessionUpdate": kind, "content": {"type": "text", "text": text[at:at + PIECE_CHARS]}}})


def run_prompt(prompt: str) -> None:
    for text in json.loads(prompt) if prompt.startswith("[\"") else [prompt]:
        write("agent_message_chunk", text)
        write("agent_thought_chunk", text)


def main() -> None:
    while True:
        message = read()
        match message.get("method"):
            case "initialize":
                send(id=message["id"], result={"protocolVersion": 1, "agentInfo": {"name": "writer", "version": "1"}})
            case "session/new":
                send(id=message["id"], result={"sessionId": "s"})
            case "session/prompt":
                run_prompt(message["params"]["prompt"][0]["text"])
                send(id=message["id"], result={"stopReason": "end_turn"})
            case _:
                pass


if __name__ == "__main__":
    main()
