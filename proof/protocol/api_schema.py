"""S5: schemathesis drives a gateway on loopback from its own OpenAPI document: no 5xx, and no answer that the document
does not contain. Good and bad requests of every operation, in all phases: examples, coverage, fuzzing, stateful."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proof import REPOSITORY
from proof.processes.stack import Stack
from proof.protocol.schema_hooks import KNOWN, SEEN

FULL_EXAMPLES = 100
"""Requests of each operation and phase in the full run."""
REQUEST_TIMEOUT_S = 20
CONFIG = """
[rates]
principal_a_minute = 0
tenant_a_minute = 0
refused_a_minute = 0

[[policy.rules]]
name = "asked for"
effect = "ask"
door = "command"
type = "execute"
"""
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "positive_data_acceptance", "negative_data_rejection",
          "missing_required_header", "unsupported_method", "allow_header_conformance", "ignored_auth", "use_after_free",
          "ensure_resource_availability")
"""All but `object_level_authorization`, which needs a second identity of the same stack that must not read what the
first one made: here a tenant's people read what is the tenant's, and other tenants are S1's."""
MEANT = {
    "GET /v1/audit/proof/consistency": "the sizes must be of this log, the first at most the second",
    "POST /v1/approvals/{approval_id}/grants": "a signature, a changed input and a rule fit one approval or another",
    "POST /v1/audit/erasures": "one of the two fields, and not both",
    "POST /v1/browser-sessions": "a code or a key, and not both",
    "POST /v1/commands": "each type has its own target, and a payload must be a message of theirs",
    "POST /v1/drain": "each scope but the gateway's has its own name",
    "POST /v1/undrain": "each scope but the gateway's has its own name",
    "POST /v1/inbound": "each type of chat has its own peer",
    "POST /v1/keys": "people and roles are those of the stack",
    "POST /v1/tenants": "a tenant's name is a word",
    "POST /v1/signing-keys": "a key is 32 bytes, and a point of the curve",
    "POST /v1/passkeys": "a key is DER of a kind that passkeys have, and the moment a time",
    "GET /v1/usage": "the first day is not after the last, and at most so many days lie between",
    "POST /v1/sessions/import": "the text must be a transcript, and the agent one that a runner offers",
    "POST /v1/sessions/{session_id}/labels": "a label of blanks alone is none",
    "POST /v1/sessions/{session_id}/branches": "a summary of blanks alone is none",
    "PATCH /v1/sessions/{session_id}": "levels and policies have their own words",
}
"""Operations that may answer 400 to a body that is valid by JSON Schema, and the condition that it cannot express. All
others must accept every valid body, if its object exists (404) and has a suitable state (409)."""
TAKEN = ("2xx", "3xx", "401", "403", "404", "409", "429", "503")
"""What a good request may be answered with: 410 comes to no cursor of ours, and 422 to no fresh key."""
LAST_LINES = 200


class Outcome(NamedTuple):
    """What a run counted."""

    answers: Counter[tuple[str, int, str | None]]
    failures: list[dict[str, Any]]
    finished: bool
    says: str

    @property
    def server_errors(self) -> int:
        """Answers of 5xx."""
        return sum(count for (_, status, _), count in self.answers.items() if status >= 500)

    @property
    def passed(self) -> bool:
        """Whether it ran to its end and found nothing."""
        return self.finished and not self.failures and not self.server_errors


def settings() -> str:
    """What schemathesis is given for its checks."""
    lines = ["[checks.positive_data_acceptance]", f"expected-statuses = {json.dumps(TAKEN)}"]
    for label in MEANT:
        lines += ["[[operations]]", f"include-name = {json.dumps(label)}",
                  "[operations.checks.positive_data_acceptance]", f"expected-statuses = {json.dumps([*TAKEN, '400'])}"]
    return "\n".join(lines) + "\n"


def drive(url: str, key: str, known: dict[str, str], *, seed: int, examples: int, phases: str, place: Path,
          checks: Sequence[str] = CHECKS) -> Outcome:
    """Drive a gateway; `key` is the owner's."""
    seen, report = place / "seen.jsonl", place / "report.json"
    seen.touch()
    (place / "schemathesis.toml").write_text(settings())
    done = subprocess.run([
        sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {key}",
        "--phases", phases, "--checks", ",".join(checks), "--max-examples", str(examples), "--seed", str(seed),
        "--generation-database", "none", "--continue-on-failure", "--request-timeout", str(REQUEST_TIMEOUT_S),
        "--warnings", "off", "--no-color", "--report", "json", "--report-json-path", str(report),
    ], env={**os.environ, "SCHEMATHESIS_HOOKS": "proof.protocol.schema_hooks", "PYTHONPATH": str(REPOSITORY),
            SEEN: str(seen), KNOWN: json.dumps(known)},
        cwd=place, capture_output=True, text=True, check=False)
    answers = Counter((label, status, code) for label, status, code in map(json.loads, seen.read_text().splitlines()))
    found: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {}
    return Outcome(answers, [*found.get("failures", []), *found.get("errors", [])], bool(found.get("complete")),
                   "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:]))


def furnish(stack: Stack) -> dict[str, str]:
    """Make something of each kind that can be asked about; give the ids by their place in a path."""
    body = {"type": "execute", "target": {"agent_id": "shell"},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "true"}]}]}}
    command = stack.post("/v1/commands", body, "proof-of-the-schema-first").json()
    key = stack.post("/v1/keys", {"principal": {"type": "user", "id": "ann"}, "roles": ["viewer"]},
                     "proof-of-the-schema-its-key").json()
    return {"key_id": key["key_id"], "command_id": command["id"], "session_id": command["target"]["session_id"],
            "approval_id": command["approval_id"]}


def run(seed: int, rounds: int | None) -> bool:
    """Drive a stack of real processes, and print what was counted; `rounds` are the examples of each operation."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        stack = Stack(place, CONFIG)
        try:
            stack.up()
            known = furnish(stack)
            found = drive(stack.url, stack.headers["Authorization"].removeprefix("Bearer "), known, seed=seed,
                          examples=rounds or FULL_EXAMPLES, phases="examples,coverage,fuzzing,stateful", place=place)
            tracebacks = stack.log("gateway").count("Traceback")
        finally:
            stack.down()
    statuses = Counter[int]()
    for (_, status, _), count in found.answers.items():
        statuses[status] += count
    asked = {label for label, _, _ in found.answers}
    accepted = {label for label, status, _ in found.answers if status < 300}
    codes = {code for _, _, code in found.answers if code is not None}
    print(f"requests                        {statuses.total()}")
    print(f"by status                       {', '.join(f'{n} × {status}' for status, n in sorted(statuses.items()))}")
    print(f"operations asked, accepted once {len(asked)}, {len(accepted)}")
    print(f"never accepted                  {', '.join(sorted(asked - accepted)) or 'none'}")
    print(f"codes seen                      {', '.join(sorted(codes))}")
    print(f"5xx                             {found.server_errors}")
    print(f"breaks of the document          {sum(one.get('count', 1) for one in found.failures)}")
    print(f"tracebacks in the log           {tracebacks}")
    if not found.passed:
        print(found.says)
    return found.passed and not tracebacks
