"""A1: 10,000 mutations of an audit log of every kind; each is found by both verifiers, and no intact log is
rejected."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import Counter
from typing import Any

from interlock.command.audit.audit_check import compare, verify
from interlock.command.audit.audit_quick import is_whole
from interlock.command.audit.audit_report import AuditReport
from proof import REPOSITORY
from proof.audit import state_tampering

MUTATIONS = 10_000
RECORDS = (2, 40)


def tamper(seed: int, rounds: int) -> dict[str, Any]:
    """Mutate `rounds` logs and check as many whole ones: {mutations, found, false_alarms, disagreements, by_kind}."""
    sys.path[:0] = [str(REPOSITORY)] if str(REPOSITORY) not in sys.path else []
    from tests.command import tampering as hands

    stranger = load_verifier()
    dice, public = random.Random(seed), hands.KEY.public_key()
    found = false_alarms = disagreements = 0
    by_kind: Counter[str] = Counter()
    for turn in range(rounds):
        records = hands.make_log(dice, dice.randrange(*RECORDS))
        # An export's checkpoint covers the record of an erasure.
        redaction = max((one.seq for one in records if b'"action":"redact"' in one.body), default=0)
        whole = hands.lines_of(records, hands.signed(records, dice.randrange(redaction, len(records) + 1)))
        false_alarms += not verify(whole, public).ok or is_whole(whole, whole[-1], public) is None
        false_alarms += opinion(stranger, whole, public) != (None, None)
        mutant = hands.MUTATIONS[turn % len(hands.MUTATIONS)](dice, records)
        alone = verify(mutant.lines, public)
        report = alone if mutant.kept is None else compare(mutant.lines, mutant.kept, public)
        earlier = () if mutant.kept is None else (mutant.kept,)
        quick = is_whole(mutant.lines, mutant.lines[-1] if mutant.lines else b"", public, earlier)
        found += not report.ok and quick is None
        disagreements += opinion(stranger, mutant.lines, public) != _finding(alone)
        by_kind[f"{mutant.kind} → {report.kind}"] += 1
    return {"mutations": rounds, "found": found, "false_alarms": false_alarms, "disagreements": disagreements,
            "by_kind": dict(sorted(by_kind.items()))}


def load_verifier() -> Any:
    """Load the verifier for strangers as a module."""
    place = REPOSITORY / "verifier/interlock_audit_verify.py"
    spec = importlib.util.spec_from_file_location("interlock_audit_verify", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def opinion(stranger: Any, lines: list[bytes], public: Any) -> tuple[str | None, int | None]:
    """The finding of the standalone verifier: (kind, record), both None for an intact log."""
    try:
        stranger.check(lines, public)
    except stranger.Bad as bad:
        return bad.args
    return (None, None)


def _finding(report: AuditReport) -> tuple[str | None, int | None]:
    return (None if report.kind is None else str(report.kind), report.seq)


def run(seed: int, rounds: int | None) -> bool:
    """Run it and print; `rounds` is the number of mutations."""
    counted = tamper(seed, rounds or MUTATIONS)
    for kind, count in counted.pop("by_kind").items():
        print(f"  {count:6} {kind}")
    print(" ", counted, flush=True)
    directories = state_tampering.tamper(seed, min(rounds or state_tampering.DIRECTORIES,
                                                      state_tampering.DIRECTORIES))
    for kind, count in directories.pop("by_kind").items():
        print(f"  {count:6} {kind}")
    print(" ", directories, flush=True)
    return (counted["found"] == counted["mutations"] and not counted["false_alarms"] and not counted["disagreements"]
            and directories["found"] + directories["within_bound"] == directories["directories"]
            and not directories["signed"] and not directories["false_alarms"])
