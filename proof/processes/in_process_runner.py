"""A paired runner whose agent `inner` needs no process of its own.

`python -m proof.processes.in_process_runner STATE URL ROOT RUNNER_ID`
"""

from __future__ import annotations

from interlock.agents.registry import ADAPTERS, Adapter
from proof.processes import paired_runner

CONFIG = """
[agents.inner]
adapter = "inner"
command = "/bin/true"

[runner]
agent_idle_ms = 86400000
"""

if __name__ == "__main__":
    ADAPTERS["inner"] = Adapter("proof.processes.in_process_agent:InnerAgent", "process", "asks", "agent", ("rw",))
    paired_runner.main()
