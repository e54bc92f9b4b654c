"""Shipped deployment files are valid and consistent, and contain a config that can be loaded."""

from __future__ import annotations

import configparser
import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.chart import NotOfTheChart, render
from interlock.config import Config, parse
from lazily import lazily

compose_spec, kubernetes_validate = lazily("compose_spec"), lazily("kubernetes_validate")

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "interlock"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_compose_file_is_valid_and_every_name_in_it_exists() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    merging = compose_spec.PyOptions()
    merging.apply_merge = True
    read = merging.from_yaml(re.sub(r"\$\{(\w+):\?[^}]*\}", r"\1", text))
    read.validate()
    whole = compose()
    gateways = [name for name in whole["services"] if name.startswith("gateway-")]
    assert len(gateways) == 3
    for service in whole["services"].values():
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in whole["volumes"]
        for used in service.get("configs", ()):
            assert used["source"] in whole["configs"]
        for needed in service.get("depends_on", ()):
            assert needed in whole["services"]
        # Nothing is reachable from other hosts by default.
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
    proxied = set(re.findall(r"server \w+ ([\w-]+):", whole["configs"]["haproxy"]["content"]))
    assert proxied == set(gateways)


def test_the_config_in_the_compose_file_is_valid_and_shares_a_ledger() -> None:
    config = parse(compose()["configs"]["interlock"]["content"], "compose.yaml")
    assert isinstance(config, Config)
    assert config.cluster.store == "postgresql://interlock@postgres/interlock"
    assert config.cluster.bus == "nats://nats:4222"


@pytest.mark.parametrize("changes", [
    {},
    {"serviceAccount": "interlock", "checkpoints": {"bucket": "locked"},
     "objects": {**VALUES["objects"], "endpoint": "http://minio:9000", "region": "eu"},
     "config": '[[policy.rules]]\nname = "none"\neffect = "deny"\nreason = "x"'},
    {"ingress": {**VALUES["ingress"], "className": "nginx", "annotations": {"a": "b"}},
     "objects": {**VALUES["objects"], "credentialsSecret": "s3"}}, {"ingress": {**VALUES["ingress"], "enabled": False}},
])
def test_the_chart_renders_valid_kubernetes_resources(changes: dict[str, Any]) -> None:
    values = {**copy.deepcopy(VALUES), **changes}
    documents = [document for path in sorted((CHART / "templates").glob("*.yaml"))
                 for document in yaml.safe_load_all(render(path.read_text(), values, "house"))]
    kinds = [document["kind"] for document in documents]
    assert kinds.count("Ingress") == int(values["ingress"]["enabled"])
    assert {"Secret", "Deployment", "PodDisruptionBudget", "Service"} <= set(kinds)
    for document in documents:
        kubernetes_validate.validate(document, "1.30", strict=True)
    config = parse(documents[kinds.index("Secret")]["stringData"]["interlock.toml"], "chart")
    assert (config.gateway.behind_proxy, config.gateway.hosts) == (True, [VALUES["host"]])
    assert config.objects.s3_bucket == "interlock"
    assert (config.audit.s3_bucket is not None) == bool(values["checkpoints"]["bucket"])
    pod = documents[kinds.index("Deployment")]["spec"]["template"]["spec"]
    mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_chart_uses_only_checked_features() -> None:
    for wrong in ('{{ include "x" . }}', "{{ .Values.nothing }}", "{{ .Values.host | upper }}",
                  "{{ if .Values.host }}"):
        with pytest.raises(NotOfTheChart):
            render(wrong, VALUES, "house")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["apiVersion"], chart["name"], chart["type"]) == ("v2", "interlock", "application")


UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_restarts_a_dead_process_and_gives_it_time_to_end(unit: Path, tmp_path: Path) -> None:
    read = configparser.ConfigParser(strict=True, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(unit)
    assert set(read.sections()) == {"Unit", "Service", "Install"}
    service = read["Service"]
    assert (service["Restart"], service["Type"]) == ("always", "exec")
    assert int(service["TimeoutStopSec"]) >= 30
    assert service["ExecStart"].split()[0] == "/opt/interlock/bin/interlock"
    analyser = shutil.which("systemd-analyze")
    if analyser is not None:  # It looks for the program, too; here that is one that is there.
        name = unit.name.replace("@.", "@root.")
        (tmp_path / name).write_text(unit.read_text().replace("/opt/interlock/bin/interlock", "/bin/true"))
        verified = subprocess.run([analyser, "verify", "--man=no", "--recursive-errors=no", str(tmp_path / name)],
                                  capture_output=True, text=True, timeout=60)
        assert (verified.returncode, verified.stderr.strip()) == (0, "")


def test_the_verbs_and_options_of_the_units_and_the_chart_exist() -> None:
    from interlock.cli import verbs

    verbs_used = {"gateway", "runner", "cluster-keys"}
    assert verbs_used <= set(verbs.names())
    for word in (line.split()[1] for unit in UNITS for line in unit.read_text().splitlines()
                 if line.startswith("ExecStart=")):
        assert word in verbs_used
