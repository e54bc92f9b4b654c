"""The config of the demonstration: the agent as it was chosen, and the rules that make it ask."""

from __future__ import annotations

from interlock.config import parse
from interlock.demo.agent import Chosen, config_text
from interlock.ports.agent import AgentSpec


def test_an_agents_table_reads_back_unchanged() -> None:
    spec = AgentSpec(adapter="acp", command='/a "b"\\c', args=["--x", "ü\x7f\n"], env={"A B": "'1'", "C": ""})
    config = parse(config_text(Chosen("mine", spec, "p")), "demo")
    assert config.agents == {"mine": spec}
    assert [rule.name for rule in parse(config_text(Chosen("shell", None, "p")), "demo").policy.rules] == [
        "the demonstration asks before a command starts", "names and checksums may be read"]
