"""The dashboard and the alerts in `deploy` use existing figures, with existing labels."""

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import Counter, Gauge, Histogram

from interlock.gateway.telemetry.metrics import Metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana/interlock.json").read_text())
ALERTS = [rule for group in yaml.safe_load((DEPLOY / "prometheus/interlock.rules.yml").read_text())["groups"]
          for rule in group["rules"]]
PANELS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
QUERIES = [*PANELS, *(alert["expr"] for alert in ALERTS)]
OF_PROMETHEUS = {"up", "instance", "job"}


def metric_names() -> set[str]:
    """Every metric name in `/metrics`, from its TYPE lines."""
    text = Metrics("1").exposed("")[0].decode()
    found: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        found |= {name + suffix for suffix in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return found


def labels() -> dict[str, set[str]]:
    """The labels of each name."""
    found: dict[str, set[str]] = {}
    for metric in vars(Metrics()).values():
        if isinstance(metric, Counter | Gauge | Histogram):
            suffixes = {Counter: ("_total",), Histogram: ("_bucket", "_sum", "_count")}.get(type(metric), ("",))
            found |= {metric._name + suffix: {*metric._labelnames, "le"} for suffix in suffixes}
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_uses_only_existing_metrics(query: str) -> None:
    names = set(re.findall(r"\b(?:interlock|process)_[a-z_]+", query)) or {"up"}
    assert names <= metric_names() | OF_PROMETHEUS
    known = {label for name in names for label in labels().get(name, set())} | OF_PROMETHEUS
    asked = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")}
    asked |= {pair for group in re.findall(r"\{([^}]*)\}", query) for pair in re.findall(r"(\w+)=", group)}
    assert asked <= known


def test_every_metric_has_a_panel() -> None:
    asked = set(re.findall(r"\binterlock_[a-z_]+", " ".join(PANELS)))
    ours = {name.removesuffix("_sum").removesuffix("_count") for name in labels() if name.startswith("interlock_")}
    assert {name for name in ours if name not in asked and name + "_bucket" not in asked} == set()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_has_the_problem_and_the_remedy(alert: dict[str, dict[str, str]]) -> None:
    assert alert["labels"]["severity"] in ("info", "warning", "critical")
    assert all(alert["annotations"][name].endswith(".") for name in ("summary", "action"))


def test_alerts_use_only_existing_states_and_codes() -> None:
    from interlock.command.machine import STATES
    from interlock.protocol.problems import PROBLEMS

    text = " ".join(alert["expr"] for alert in ALERTS)
    for states in re.findall(r'interlock_command_moves_total\{[^}]*state=~?"([^"]+)"', text):
        assert set(states.split("|")) <= set(STATES)
    for code in re.findall(r'code="([^"]+)"', text):
        assert code in PROBLEMS
