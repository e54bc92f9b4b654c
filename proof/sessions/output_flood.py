"""An agent that writes 1 GB of text: its turn ends, every loss is reported, and memory does not grow (A-8, D-3)."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from proof import REPOSITORY
from proof.agents.held_tool_call import Unmet
from proof.processes.stack import Stack

FLOOD_BYTES = 1_000_000_000
FLAT_MIB = 192
"""Growth allowed to each of gateway and runner: their queues' named limits, not the flood."""
END_TIMEOUT_S = 1_500.0


def flood(total_bytes: int) -> dict[str, Any]:
    """Run one flood: {state, bytes_sent, bytes_kept, gateway_growth_mib, runner_growth_mib, seconds}. Raises Unmet."""
    agent = REPOSITORY / "tests" / "agents" / "misbehaving.py"
    config = (f'\n[agents.flood]\nadapter = "acp"\ncommand = "{sys.executable}"\nargs = ["-S", "{agent}"]\n')
    with tempfile.TemporaryDirectory(prefix="interlock-flood-") as place:
        stack = Stack(Path(place), config)
        try:
            stack.up()
            before = {part: rss_mib(process.pid) for part, process in stack.processes.items()}
            peak = dict(before)
            finished = threading.Event()
            meter = threading.Thread(target=_measure, args=(stack, peak, finished), daemon=True)
            meter.start()
            began = time.monotonic()
            body = {"type": "execute", "target": {"agent_id": "flood", "workspace": str(stack.workspace)},
                    "payload": {"messages": [{"role": "user", "content": [
                        {"contentType": "text", "value": f"flood:{total_bytes}"}]}]}}
            answer = stack.post("/v1/commands", body, "proof-flood-the-command")
            if answer.status_code != 202:
                raise Unmet(f"the command was refused: {answer.text}")
            command = answer.json()
            ended = _await_end(stack, command["id"])
            seconds = time.monotonic() - began
            finished.set()
            meter.join()
            kept = _kept_bytes(stack, command["target"]["session_id"])
            return {"state": ended["state"], "bytes_sent": total_bytes, "bytes_kept": kept,
                    "gateway_growth_mib": round(peak["gateway"] - before["gateway"]),
                    "runner_growth_mib": round(peak["runner"] - before["runner"]), "seconds": round(seconds, 1)}
        finally:
            stack.down()


def _await_end(stack: Stack, command_id: str) -> dict[str, Any]:
    deadline, command = time.monotonic() + END_TIMEOUT_S, dict[str, Any]()
    while time.monotonic() < deadline:
        command = stack.get(f"/v1/commands/{command_id}")
        if command.get("ended_at"):
            return command
        time.sleep(0.2)
    raise Unmet(f"the flood's command did not end within {END_TIMEOUT_S:.0f} s: it is {command.get('state')}")


def _kept_bytes(stack: Stack, session_id: str) -> int:
    kept, cursor = 0, None
    while True:
        page = stack.get(f"/v1/sessions/{session_id}/frames", limit=20, view="raw",
                         **({"since": cursor} if cursor else {}))
        kept += sum(len(event["frame"]["payload"]["text"].encode()) for event in page["events"]
                    if event.get("frame", {}).get("type") == "agent.text.done")
        cursor = page["next_cursor"]
        if not page["has_more"]:
            return kept


def _measure(stack: Stack, peak: dict[Any, float], finished: threading.Event) -> None:
    while not finished.wait(0.2):
        for part, process in stack.processes.items():
            peak[part] = max(peak[part], rss_mib(process.pid))


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def run(seed: int, rounds: int | None) -> bool:
    """Flood, and print what was measured."""
    seen = flood(FLOOD_BYTES)
    for name, value in seen.items():
        print(f"{name:<20} {value}")
    passed = (seen["state"] == "succeeded" and seen["bytes_kept"] == seen["bytes_sent"]
              and max(seen["gateway_growth_mib"], seen["runner_growth_mib"]) <= FLAT_MIB)
    print("passed" if passed else "FAILED")
    return passed
