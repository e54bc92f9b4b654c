"""The dashboard in `deploy/grafana` asks for figures that there are, with labels that they have."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client import Counter, Gauge, Histogram

from interlock.gateway.metrics import Metrics

DASHBOARD = json.loads((Path(__file__).resolve().parents[2] / "deploy/grafana/interlock.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def there_are() -> dict[str, set[str]]:
    """Every name that can be asked for, with its labels."""
    found: dict[str, set[str]] = {"process_resident_memory_bytes": set(), "process_open_fds": set()}
    for metric in vars(Metrics()).values():
        if isinstance(metric, Counter | Gauge | Histogram):
            labels = set(metric._labelnames)
            suffixes = {Counter: ("_total",), Histogram: ("_bucket", "_sum", "_count")}.get(type(metric), ("",))
            found |= {metric._name + suffix: labels | {"le"} for suffix in suffixes}
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_a_panel_asks_for_what_there_is(query: str) -> None:
    known = there_are()
    names = re.findall(r"\b(?:interlock|process)_[a-z_]+", query)
    assert names
    assert set(names) <= set(known)
    grouped = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")}
    assert grouped <= {label for name in names for label in known[name]}


def test_every_figure_of_ours_has_its_panel() -> None:
    asked = set(re.findall(r"\binterlock_[a-z_]+", " ".join(QUERIES)))
    ours = {name.removesuffix("_sum").removesuffix("_count") for name in there_are() if name.startswith("interlock_")}
    assert {name for name in ours if name not in asked and name + "_bucket" not in asked} == set()
