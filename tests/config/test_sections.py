"""The tables of the config (G-1): the valid values of each key, in a sentence that begins with its name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.config.sections import (
    LEAST_OUTBOX_BYTES,
    LONGEST_MS,
    ClusterSection,
    Config,
    GatewaySection,
    LimitsSection,
    MetricsSection,
    OidcSection,
    OutgoingSection,
    PolicySection,
    RatesSection,
    RunnerSection,
    WebhookSection,
)
from interlock.protocol.records import DEVICES

pytestmark = pytest.mark.req("G-1")
ISSUER = {"issuer": "https://i.example", "audience": ["a"], "tenant": "t"}
TOPIC = {"url": "https://n"}


@pytest.mark.parametrize(("form", "table", "sentence"), [
    (GatewaySection, {"port": 65_536}, "port"), (GatewaySection, {"tls_cert": "c"},
    "tls_key: a certificate needs its key"),
    (GatewaySection, {"tls_key": "k"}, "tls_cert: "), (GatewaySection, {"trusted_proxies": ["me"]},
    "trusted_proxies: 'me'"),
    (LimitsSection, {"queue_ttl_ms": 0}, "queue_ttl_ms: a time"), (LimitsSection, {"timeout_ms": LONGEST_MS + 1},
    "ten years"),
    (LimitsSection, {"approval_ttl_ms": 31 * 86_400_000}, "approval_ttl_ms: at most 30 days"),
    (RunnerSection, {"roots": ["src"]}, "roots: 'src' is not an absolute path"),
    (RunnerSection, {"outbox_bytes": LEAST_OUTBOX_BYTES - 1}, "outbox_bytes"), (RunnerSection, {"drain_ms": -1},
    "drain_ms"),
    (OidcSection, {**ISSUER, "issuer": "i.example"}, "issuer: "), (OidcSection, {**ISSUER, "audience": []}, "audience"),
    (OidcSection, {**ISSUER, "tenant_claim": "t"}, "tenant: either"), (OidcSection, {**ISSUER, "tenant": "No"}, "'No'"),
    (OidcSection, {"issuer": "https://i", "audience": ["a"]}, "tenant: either"),
    (OidcSection, {"issuer": "https://i", "audience": ["a"], "tenant_claim": "t"}, "tenants: "),
    (OidcSection, {**ISSUER, "roles": {"x": "owner"}}, "roles: 'owner' is not a role for a token"),
    (OidcSection, {**ISSUER, "default_roles": ["runner"]}, "roles: 'runner'"),
    (OidcSection, {**ISSUER, "algorithms": ["HS256"]}, "algorithms: "), (OidcSection, {**ISSUER, "algorithms": []},
    "algo"),
    (OidcSection, {**ISSUER, "algorithms": ["none"]}, "algorithms: "), (OidcSection, {**ISSUER, "leeway_ms": 300_001},
    "leew"),
    (RatesSection, {"principal_burst": 0}, "principal_burst"), (RatesSection, {"tenant_streams": -1}, "tenant_streams"),
    (OutgoingSection, {"allow": ["localhost"]}, "allow: 'localhost'"), (OutgoingSection, {"allow": ["10.0.0.1/8"]},
    "allow"),
    (MetricsSection, {"open_to": ["all"]}, "open_to: 'all'"),
    (ClusterSection, {"store": "mysql://x"}, "store: "), (ClusterSection, {"bus": "nats://x"},
    "bus: gateways that share"),
    (ClusterSection, {"store": "postgres://x", "bus": "nats://a,http://b"}, "bus: the address of a NATS"),
    (ClusterSection, {"store": "postgres://x", "bus": ""}, "bus: the address of a NATS"),
    (WebhookSection, TOPIC, "secret_file: "), (WebhookSection, {**TOPIC, "secret_env": "E", "tenant": "a b"},
    "tenant: 'a b'"),
])
def test_an_impossible_value_is_named(form: Any, table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, form)


@pytest.mark.parametrize(("section", "url"), [
    (GatewaySection(), None), (GatewaySection(hosts=["a.example"]), None),
    (GatewaySection(hosts=["a.example", "b"], behind_proxy=True), "https://a.example"),
    (GatewaySection(hosts=["a.example"], tls_cert="c", tls_key="k"), "https://a.example:7420"),
    (GatewaySection(hosts=["a.example"], tls_cert="c", tls_key="k", port=443), "https://a.example"),
    (GatewaySection(hosts=["a.example:8443"], tls_cert="c", tls_key="k"), "https://a.example:8443"),
])
@pytest.mark.req("L-2")
def test_the_public_url_is_known_only_with_a_name_and_tls(section: GatewaySection, url: str | None) -> None:
    assert section.public_url() == url


@pytest.mark.req("Y-4")
def test_the_files_own_rules_precede_those_of_presets() -> None:
    policy = msgspec.convert({"use": ["readonly"], "rules": [{"name": "mine", "effect": "deny"}]}, PolicySection)
    names = [rule.name for rule in policy.in_force]
    assert names[0] == "mine"
    assert len(names) > 1
    assert all(name.startswith("readonly: ") for name in names[1:])


@pytest.mark.req("O-11", "P-8")
@pytest.mark.parametrize(("tables", "sentence"), [
    ({"webhooks": {"ops": {**TOPIC, "secret_env": "E"}}, "ntfy": {"ops": TOPIC}},
    "ntfy: two ways .* have the name 'ops'"),
    ({"ntfy": {"ops": TOPIC}, "apprise": {"ops": {"url_env": "E"}}}, "two ways"),
    ({"push": {"contact": "mailto:a@b"}, "ntfy": {DEVICES: TOPIC}},
    "push: a webhook or notice has the name 'push'"),
    ({"budgets": [{"name": "a", "usd_per_day": "1"}, {"name": "a", "usd_per_day": "2"}]},
     "budgets: two have the name 'a'"),
])
def test_two_entries_with_one_name_are_refused(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(tables, Config)


def test_one_name_in_two_tenants_is_two_channels() -> None:
    config = msgspec.convert({"ntfy": {"ops": TOPIC}, "apprise": {"ops": {"url_env": "E", "tenant": "b"}}}, Config)
    assert config.ways() == [("default", "ops"), ("b", "ops")]
