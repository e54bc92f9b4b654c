"""Policy over the API: rules in force, their decision on a call, remembered rules, keys that sign votes."""

import base64
import json

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.command.policy.policy import Rule, RuleSet
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.records import RuleRecord
from interlock.protocol.resources import RememberedRule, Vote
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio

PUBLIC = base64.b64encode(Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()).decode()


async def remembered(gateway: Gateway, rule_id: str = "rul_1", tenant: str = "default") -> None:
    rule = RememberedRule(id=rule_id, tenant_id=tenant, created_at="", created_by="user:kim", approval_id="apr_1",
                          rule={"name": "always", "effect": "allow", "tool": "shell", "tenant": tenant,
                                "until": "2999-01-01T00:00:00Z"})
    await gateway.desk.ledger.commit(WriteBatch([Put(RuleRecord(rule=rule))]))
    await gateway.desk.learn_rules()


@pytest.mark.req("P-1")
async def test_the_rules_are_shown_in_evaluation_order(gateway: Gateway) -> None:
    gateway.desk.policy = RuleSet([Rule(name="mine", effect="allow", tool="ls"),
                                   Rule(name="no", effect="deny", tool="rm"),
                                   Rule(name="theirs", effect="deny", tenant="other")])
    await remembered(gateway)
    shown = (await gateway.http.get("/v1/policy")).json()["rules"]
    assert [(rule["source"], rule["name"]) for rule in shown[2:5]] == [
        ("config", "no"), ("remembered", "rul_1: always"), ("config", "mine")]
    assert {rule["effect"] for rule in shown[:2]} == {"deny"}, "shipped denials come before any rule of a user"
    assert {rule["source"] for rule in (*shown[:2], *shown[5:])} == {"shipped"}


@pytest.mark.req("P-1")
async def test_a_described_call_is_decided_and_each_skipped_rule_names_its_reason(gateway: Gateway) -> None:
    gateway.desk.policy = RuleSet([Rule(name="no rm", effect="deny", command="rm .*", reason="never"),
                                   Rule(name="git", effect="allow", tool="shell", words="git log **")])
    answer = (await gateway.http.get("/v1/policy/decision?agent=goose&tool=shell&command=git%20log")).json()
    assert (answer["effect"], answer["rule"]) == ("allow", "git")
    assert [(step["rule"], step["missed"]) for step in answer["steps"][2:]] == [("no rm", "command"), ("git", None)]
    answer = (await gateway.http.get('/v1/policy/decision?agent=goose&tool=shell&input={"command":"rm -r x"}')).json()
    assert (answer["effect"], answer["reason"]) == ("deny", "never")
    assert answer["unclear"] is None
    answer = (await gateway.http.get("/v1/policy/decision?agent=goose&tool=shell&command=git%20log%20%26%26")).json()
    assert (answer["effect"], answer["unclear"]) == ("ask", "the command is not of a shell's grammar")
    answer = (await gateway.http.get("/v1/policy/decision?agent=goose&door=command&permission=never")).json()
    assert (answer["effect"], answer["steps"][-1]["source"]) == ("ask", "shipped")
    started = "/v1/policy/decision?agent=goose&door=command&command=git%20log%20%26%26"
    assert (await gateway.http.get(started)).json()["unclear"] is None, "it is about a tool's input"
    for query in ("", "?agent=NO", "?agent=a&door=window", "?agent=a&input=[]"):
        assert (await gateway.http.get(f"/v1/policy/decision{query}")).json()["code"] == "InvalidPayload"


@pytest.mark.req("P-1", "J-4")
async def test_a_described_call_is_decided_by_its_person_and_its_runner(gateway: Gateway) -> None:
    gateway.desk.policy = RuleSet([Rule(name="mine", effect="deny", person="user:ann", runner=["a", "b"])])
    for query, rule in (("&person=user:ann&runner=b", "mine"), ("&person=user:bob&runner=b", None),
                        ("&person=user:ann&runner=c", None), ("", None)):
        answer = (await gateway.http.get(f"/v1/policy/decision?agent=goose&door=command{query}")).json()
        assert (answer["rule"] == "mine") == (rule is not None), query


@pytest.mark.req("P-1", "J-4", "H-18")
async def test_the_box_is_that_of_the_query_or_of_the_session(gateway: Gateway) -> None:
    gateway.desk.policy = RuleSet([Rule(name="boxed", effect="allow", door="command", permission="never", box=True)])
    closed = {"walls": "namespace", "limited": True, "network": "none"}
    states = {"offered": {"opening": "closed", "offered_box": closed}, "stated": {"opening": "open", "box": closed},
              "left": {"opening": "open", "offered_box": closed}, "asks": {"opening": "open", "box": closed}}
    for name, state in states.items():
        machine = json.dumps({"permission": "asks" if name == "asks" else "never", **state}).encode()
        await gateway.desk.add_session(name, machine=machine)
    await gateway.desk.add_session("theirs", "other", machine=json.dumps(states["stated"]).encode())

    async def rule(query: str) -> str:
        answer = await gateway.http.get(f"/v1/policy/decision?agent=shell&door=command{query}")
        return answer.json()["rule"]

    own = {name: await rule(f"&session_id={name}") for name in (*states, "theirs", "unknown")}
    assert [name for name, found in own.items() if found == "boxed"] == ["offered", "stated"]
    for given, is_boxed in (("walls,writes,network", True), ("walls,writes", False), ("", False)):
        assert (await rule(f"&permission=never&box={given}") == "boxed") == is_boxed, given
        assert (await rule(f"&session_id=stated&box={given}") == "boxed") == is_boxed, given
    for wrong in ("roof", "walls,", "walls;writes"):
        answer = await gateway.http.get(f"/v1/policy/decision?agent=shell&door=command&box={wrong}")
        assert answer.json()["code"] == "InvalidPayload"


@pytest.mark.req("A-9", "M-1", "U-1")
async def test_a_remembered_rule_is_listed_and_revoked_once(gateway: Gateway) -> None:
    await remembered(gateway)
    await remembered(gateway, "rul_2", "other")
    assert [rule["id"] for rule in (await gateway.http.get("/v1/policy/rules")).json()["rules"]] == ["rul_1"]
    first = await gateway.post("/v1/policy/rules/rul_1/revoke", {}, "one-key-for-one-revoke")
    again = await gateway.post("/v1/policy/rules/rul_1/revoke", {}, "one-key-for-one-revoke")
    assert (first.status_code, again.content) == (200, first.content)
    assert first.json()["revoked_by"] == "user:owner"
    assert [rule.name for rule in gateway.desk.policy.rules] == ["rul_2: always"]
    assert (await gateway.post("/v1/policy/rules/rul_2/revoke", {})).status_code == 404
    records = [msgspec.json.decode(record.body) for record in await gateway.desk.ledger.audit("default", 0, 100)]
    assert [(one["action"], one["meta"]["change"]) for one in records] == [("policy_change", "revoked")]


@pytest.mark.req("P-1", "K-1")
async def test_no_step_of_an_explanation_names_a_rule_of_another_tenant(gateway: Gateway) -> None:
    gateway.desk.policy = RuleSet([Rule(name="theirs", effect="deny", tenant="other", tool="shell"),
                                   Rule(name="ours", effect="ask", tenant="default", tool="shell")])
    await gateway.desk.add_approval("apr_1", door="tool", tool_name="shell")
    for path in ("/v1/policy/decision?agent=shell&tool=shell", "/v1/approvals/apr_1/explain"):
        named = [step["rule"] for step in (await gateway.http.get(path)).json()["steps"]]
        assert ("theirs" in named, named[-1]) == (False, "ours"), path


@pytest.mark.req("A-9")
async def test_the_rule_is_shown_before_it_is_saved(gateway: Gateway) -> None:
    make = msgspec.Raw(b'{"command":"make"}')
    await gateway.desk.add_approval("apr_1", door="tool", tool_name="shell", input=make)
    shown = (await gateway.http.get("/v1/approvals/apr_1/rule?scope=session")).json()["rule"]
    assert shown.pop("until") > "2026"
    assert shown == {"name": "shell of shell in one session", "effect": "allow", "tenant": "default", "door": "tool",
                     "agent": "shell", "tool": "shell", "command_line": "make", "session": "s1"}
    assert (await gateway.http.get("/v1/approvals/apr_1/rule?decision=deny")).json()["rule"]["effect"] == "deny"
    await gateway.desk.add_approval("apr_2", required=2)
    assert (await gateway.http.get("/v1/approvals/apr_2/rule")).status_code == 409
    assert (await gateway.http.get("/v1/approvals/apr_1/explain")).json()["rule"] == "ask before a tool"


@pytest.mark.req("A-9")
async def test_a_described_call_is_proposed_by_its_kind_only_if_the_config_says_so(gateway: Gateway) -> None:
    subject = msgspec.Raw(b'{"tool_name":"shell","title":"Run it","kind":"execute","described":true}')
    await gateway.desk.add_approval("apr_1", door="tool", tool_name="shell", subject=subject)
    refused = await gateway.http.get("/v1/approvals/apr_1/rule?width=described")
    assert (refused.status_code, "remember_described" in refused.json()["detail"]) == (400, True)
    gateway.desk.policy = RuleSet(remember_described=True)
    offered = (await gateway.http.get("/v1/approvals/apr_1/rule")).json()
    assert [one["width"] for one in offered["widths"]] == ["described"]
    assert {"kind": "execute", "described": True, "session": "s1"}.items() <= offered["rule"].items()
    assert (await gateway.http.get("/v1/approvals/apr_1/rule?scope=rule")).status_code == 400


@pytest.mark.req("P-1", "H-6")
async def test_a_whole_request_is_decided_by_all_its_facts(gateway: Gateway) -> None:
    gateway.desk.policy = RuleSet([Rule(name="secrets", effect="deny", path="secret/**")])
    subject = json.dumps({"tool_name": "edit", "input": {}, "locations": ["/w/secret/a"]})
    query = {"agent": "goose", "workspace": "/w", "subject": subject}
    assert (await gateway.http.get("/v1/policy/decision", params=query)).json()["rule"] == "secrets"
    wrong = await gateway.http.get("/v1/policy/decision", params={**query, "subject": "[]"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "subject")


@pytest.mark.req("P-3", "M-1")
async def test_a_vote_is_withdrawn_once(gateway: Gateway) -> None:
    vote = Vote(by="user:owner", at="", decision="grant", method="acl")
    await gateway.desk.add_approval("apr_1", votes=[vote])
    first = await gateway.post("/v1/approvals/apr_1/withdrawals", {}, "one-key-for-one-vote")
    again = await gateway.post("/v1/approvals/apr_1/withdrawals", {}, "one-key-for-one-vote")
    assert (first.status_code, again.content) == (200, first.content)
    assert first.json()["votes"][0]["withdrawn_at"]
    assert (await gateway.post("/v1/approvals/apr_1/withdrawals", {})).status_code == 409


@pytest.mark.req("P-4", "U-1")
async def test_a_person_registers_and_revokes_a_signing_key(gateway: Gateway) -> None:
    made = await gateway.post("/v1/signing-keys", {"public_key": PUBLIC, "label": "laptop"})
    assert made.status_code == 201, made.text
    key = made.json()
    assert key["owner"] == {"type": "user", "id": "owner"}
    assert (await gateway.post("/v1/signing-keys", {"public_key": PUBLIC})).status_code == 409
    wrong = await gateway.post("/v1/signing-keys", {"public_key": "aGk="})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "/public_key")
    revoked = await gateway.post(f"/v1/signing-keys/{key['key_id']}/revoke", {})
    assert revoked.json()["revoked_at"]
    listed = (await gateway.http.get("/v1/signing-keys")).json()["signing_keys"]
    assert [one["key_id"] for one in listed] == [key["key_id"]]
    assert (await gateway.post("/v1/signing-keys/sgk_none/revoke", {})).status_code == 404


@pytest.mark.req("P-4", "K-1")
async def test_a_key_registered_in_another_tenant_can_be_registered_too(gateway: Gateway) -> None:
    ours = await gateway.post("/v1/signing-keys", {"public_key": PUBLIC})
    async with gateway.as_role("owner", "other") as elsewhere:
        theirs = await elsewhere.post("/v1/signing-keys", json={"public_key": PUBLIC},
                                      headers={"Idempotency-Key": "one-key-for-one-key"})
    assert (ours.status_code, theirs.status_code) == (201, 201), theirs.text
    assert ours.json()["key_id"] != theirs.json()["key_id"]
