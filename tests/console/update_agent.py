"""An ACP agent with modes, models and a depth of thinking to choose. It sends the updates that its prompt, a JSON list,
names, the file of one with as much `padding` as that asks for, and replies to any other prompt with nothing."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.console.forging_agent import read, send

HOSTILE = "<b onclick=alert(1)>\u202eplan</b>"
OFFERED: dict[str, Any] = {
    "modes": {"currentModeId": "default", "availableModes": [
        {"id": "default", "name": "Default"}, {"id": "plan", "name": "Plan first"}, {"id": HOSTILE, "name": HOSTILE}]},
    "models": {"currentModelId": "large", "availableModels": [
        {"modelId": "large", "name": "Large"}, {"modelId": "small", "name": "Small"}]},
    "configOptions": [{"id": "effort", "name": "Effort", "category": "thought_level", "type": "select",
                       "currentValue": "low", "options": [{"value": "low", "name": "Low"},
                                                          {"value": "high", "name": "High"}]}],
}


def main() -> None:
    while True:
        message = read()
        match message.get("method"):
            case "initialize":
                send(id=message["id"], result={
                    "protocolVersion": 1, "agentInfo": {"name": "qwen-code", "version": "1"},
                    "agentCapabilities": {"promptCapabilities": {"image": True, "embeddedContext": True}}})
            case "session/new":
                send(id=message["id"], result={"sessionId": "s", **OFFERED})
            case "session/prompt":
                text = next((part["text"] for part in message["params"]["prompt"] if part["type"] == "text"), "")
                for update in json.loads(text) if text.startswith("[") else []:
                    if (padding := update.pop("padding", 0)) > 0:
                        content = base64.b64decode(update["content"]["data"]) + bytes(padding)
                        update["content"]["data"] = base64.b64encode(content).decode()
                    send(method="session/update", params={"sessionId": "s", "update": update})
                send(id=message["id"], result={"stopReason": "end_turn"})
            case "session/set_mode" | "session/set_model":
                send(id=message["id"], result={})
            case "session/set_config_option":
                options = [{**OFFERED["configOptions"][0], "currentValue": message["params"]["value"]}]
                send(id=message["id"], result={"configOptions": options})
            case _:
                pass


if __name__ == "__main__":
    main()
