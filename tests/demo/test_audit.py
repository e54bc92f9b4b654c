"""The demonstration's own look at an audit log: whose grants it has, and that a flipped bit is noticed."""

from __future__ import annotations

from pathlib import Path

from interlock.demo.audit import approved


def test_only_grants_count_and_a_modified_line_proves_nothing(tmp_path: Path) -> None:
    export = tmp_path / "audit.jsonl"
    export.write_text('{"record":{"action":"approve","approval_id":"apr_1"}}\n'
                      '{"record":{"action":"deny","approval_id":"apr_2"}}\n'
                      '{"record":{"action":"approve"}}\n'
                      '{"record":{"action":"approve","approval_id":\n'
                      '{"checkpoint":"note"}\n'
                      '{"record":{"action":"approve","approval_id":"apr_3"}}\n')

    assert approved(export) == {"apr_1", "apr_3"}
