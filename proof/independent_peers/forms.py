"""The published examples, as the text prints them, and what a payload must be to fit one.

The examples of RAWP-DPS describe each field in its place: its type, 필수 (required) or 선택 (optional), and the values
that it may have. Those of RACP show values, with `|` between alternatives. Nothing here comes from Interlock.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, cast

DPS: dict[str, Any] = {
    "session.history": {
        "frames": ["Object[] (필수, 단절 동안 버퍼에 쌓인 과거 프레임의 배열. 각 요소는 본 규격의 Envelope 전체)"],
        "buffer_status": {
            "policy_applied": "String (필수, 'RING' | 'DROP' | 'NONE')",
            "truncated": "Boolean (필수, 데이터 유실 발생 여부)",
            "lost_frame_count": "Number (선택, 유실된 프레임 수 추정치)",
            "buffer_high_watermark": "Number (선택, 버퍼 최대 사용량 바이트)",
        },
        "last_sync_timestamp": "String (필수, ISO 8601, 마지막 동기화 시각)",
        "last_message_id": "String (필수, 마지막 동기화 message_id)",
    },
    "session.compacted": {
        "summary": "String (필수, 압축 요약 텍스트)",
        "previous_token_count": "Number (필수, 압축 전 토큰 수)",
        "current_token_count": "Number (필수, 압축 후 토큰 수)",
        "preserved_elements": {
            "files_modified": ["String (선택, 수정된 파일 경로)"],
            "decisions_made": ["String (선택, 주요 결정 사항)"],
            "errors_encountered": ["String (선택, 미해결 에러)"],
            "active_todos": ["Object (선택, 활성 TODO 항목)"],
        },
        "trigger": "String (필수, 'auto' | 'manual' | 'requested')",
    },
    "session.usage": {
        "turn_id": "String (선택, 사용량이 소속된 Turn)",
        "token_usage": {
            "input_tokens": "Number (필수)",
            "output_tokens": "Number (필수)",
            "cache_read_tokens": "Number (선택, 캐시 히트 토큰)",
            "cache_write_tokens": "Number (선택, 캐시 기록 토큰)",
            "thinking_tokens": "Number (선택, 사고 토큰)",
        },
        "cost_usage": {
            "limit": "Number (필수, -1은 무제한)",
            "used": "Number (필수)",
            "unit": "String (필수, 'USD' 등)",
        },
        "message_usage": {
            "limit": "Number (필수)",
            "used": "Number (필수)",
            "unit": "String (필수, 'COUNT')",
        },
        "context_window": {
            "capacity": "Number (선택, 최대 토큰 윈도우)",
            "used": "Number (선택, 현재 사용 중 토큰)",
            "utilization": "Number (선택, 0.0–1.0, 사용률)",
        },
        "time_to_reset": "String (필수, ISO 8601)",
    },
    "session.error": {
        "error_code": "String (필수)",
        "message": "String (필수)",
        "fatal": "Boolean (필수, true 시 세션 종료 절차 개시)",
    },
    "session.turn.start": {
        "turn_id": "String (필수, UUID v4)",
        "turn_index": "Number (필수, 0-based 순번)",
        "mode": "String (선택, 현재 동작 모드)",
    },
    "session.turn.end": {
        "turn_id": "String (필수)",
        "stop_reason": "String (필수, 아래 열거 값)",
        "tool_invocation_count": "Number (선택, 이 Turn에서의 도구 호출 횟수)",
    },
}
STOP_REASONS = ("end_turn", "max_tokens", "cancelled", "error", "tool_use", "awaiting_input")

RACP: dict[str, Any] = {
    "common": {
        "id": "cmd_01HXXX...",
        "created_at": "2025-09-06T10:00:00Z",
        "idempotency_key": "c6b2a...",
        "tenant_id": "org_abc",
        "actor": {"type": "user|agent", "id": "u_123"},
    },
    "command": {
        "type": "execute|pause|cancel",
        "target": {"agent_id": "a_123", "session_id": "s_456"},
        "priority": 0,
        "timeout_ms": 60000,
        "payload": {"messages": [], "tools": []},
    },
    "approval": {
        "command_id": "cmd_...",
        "required": 1,
        "grants": [{"by": "u_777", "at": "2025-09-06T10:01:00Z", "method": "acl|signature"}],
    },
    "heartbeat": {"event": "heartbeat", "command_id": "cmd_...", "agent_id": "a_123", "at": "..."},
    "progress": {"event": "progress", "command_id": "cmd_...", "stage": "retrieval|tool|chat", "percent": 42},
    "result": {"event": "result", "command_id": "cmd_...", "ok": True, "output": {}},
    "error": {"event": "error", "command_id": "cmd_...", "code": "Timeout", "message": "..."},
    "audit": {
        "id": "aud_...",
        "command_id": "cmd_...",
        "at": "2025-09-06T10:01:02Z",
        "who": {"id": "u_777", "role": "approver"},
        "action": "approve|reject|enqueue|start|complete|error",
        "meta": {"ip": "...", "user_agent": "..."},
    },
}
ERROR_CODES = ("Unauthorized", "Forbidden", "ApprovalRequired", "InvalidPayload", "UnsupportedCapability",
               "RateLimited", "QuotaExceeded", "Timeout", "Canceled", "Conflict", "InternalError", "UpstreamError")

_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_KINDS: dict[str, type | tuple[type, ...]] = {"String": str, "Number": (int, float), "Boolean": bool, "Object": dict,
                                              "Object[]": dict}


def misfits(kind: str, payload: Any) -> list[str]:
    """The differences of a RAWP-DPS payload from its published example, a sentence each."""
    found = _dps(DPS[kind], payload, kind)
    if kind == "session.turn.end" and payload.get("stop_reason") not in STOP_REASONS:
        found.append(f"stop_reason {payload.get('stop_reason')!r} is not in the list")
    return found


def _dps(form: Any, value: Any, path: str) -> list[str]:
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return [f"{path} is not an object"]
        found: list[str] = []
        for name, inner in cast(dict[str, Any], form).items():
            if name in value:
                found += _dps(inner, value[name], f"{path}.{name}")
            elif _required(inner):
                found.append(f"{path}.{name} is missing")
        return found
    if isinstance(form, list):
        if not isinstance(value, list):
            return [f"{path} is not a list"]
        return [each for at, inner in enumerate(cast(list[Any], value))
                for each in _dps(form[0], inner, f"{path}[{at}]")]
    return _field(form, value, path)


def _required(form: Any) -> bool:
    if isinstance(form, dict):
        return any(_required(inner) for inner in cast(dict[str, Any], form).values())
    return "필수" in (form[0] if isinstance(form, list) else form)


def _field(form: str, value: Any, path: str) -> list[str]:
    kind = form.split(" ", 1)[0]
    if not isinstance(value, _KINDS[kind]) or (kind == "Number" and isinstance(value, bool)):
        return [f"{path} is {value!r}, not a {kind}"]
    choices = re.findall(r"'([^']+)'", form) if "등" not in form else []
    if choices and value not in choices:
        return [f"{path} is {value!r}, not {' or '.join(choices)}"]
    if "UUID v4" in form and not _UUID4.fullmatch(value):
        return [f"{path} is {value!r}, not a UUID v4"]
    if "ISO 8601" in form and not is_time(value):
        return [f"{path} is {value!r}, not ISO 8601"]
    if "0-based" in form and (value < 0 or value != int(value)):
        return [f"{path} is {value!r}, not an index from 0"]
    if "0.0" in form and not 0 <= value <= 1:
        return [f"{path} is {value!r}, not between 0.0 and 1.0"]
    return []


def is_time(value: Any) -> bool:
    """Whether a text is a date and time of ISO 8601."""
    try:
        return isinstance(value, str) and "T" in value and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def unlike(name: str, value: Any, *, without: tuple[str, ...] = ()) -> list[str]:
    """What of a RACP resource is not as its example shows: fields, their types, the prefix of ids, alternatives."""
    return _racp({key: inner for key, inner in RACP[name].items() if key not in without}, value, name)


def _racp(form: Any, value: Any, path: str) -> list[str]:
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return [f"{path} is {value!r}, not an object"]
        return [each for name, inner in cast(dict[str, Any], form).items()
                for each in (_racp(inner, value[name], f"{path}.{name}") if name in value
                             else [f"{path}.{name} is missing"])]
    if isinstance(form, list):
        if not isinstance(value, list):
            return [f"{path} is not a list"]
        return [each for at, inner in enumerate(cast(list[Any], value)) if form
                for each in _racp(form[0], inner, f"{path}[{at}]")]
    like = cast(type[object], type(form))
    wanted = (int, float) if like in (int, float) else like
    if not isinstance(value, wanted) or isinstance(value, bool) != isinstance(form, bool):
        return [f"{path} is {value!r}, not like {form!r}"]
    if not isinstance(form, str) or not isinstance(value, str):
        return []
    if "|" in form and value not in form.split("|"):
        return [f"{path} is {value!r}, not {form}"]
    if form.startswith("2025-") and not is_time(value):
        return [f"{path} is {value!r}, not a time"]
    prefix = form.split("_", 1)[0] + "_"
    if prefix in ("cmd_", "aud_") and not value.startswith(prefix):
        return [f"{path} is {value!r}, which does not begin with {prefix}"]
    return []
