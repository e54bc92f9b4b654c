"""`python -m proof.inner_part STATE URL ROOT RUNNER_ID`: a paired runner whose agent `inner` needs no process."""

from __future__ import annotations

from interlock.agents.registry import ADAPTERS, Adapter
from proof import lease_part

CONFIG = """
[agents.inner]
adapter = "inner"
command = "/bin/true"

[runner]
agent_idle_ms = 86400000
"""

if __name__ == "__main__":
    ADAPTERS["inner"] = Adapter("proof.inner_agent:InnerAgent", "process", "asks", "agent", ("rw",))
    lease_part.main()
