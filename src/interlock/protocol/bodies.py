"""Bodies that only describe how to do what their path names; those that create a resource are with it in
`resources`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from interlock.protocol.limits import PRUNE_MAX_MS, PRUNE_MIN_MS
from interlock.protocol.resources import Body

DeviceName = Annotated[str, msgspec.Meta(max_length=128, extra_json_schema={
    "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"})]
"""A name for people. The schema states the pattern; the code that uses the name checks it and describes the fault."""


class CloseBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/close`."""

    reason: str = "asked for"
    idempotency_key: str | None = None


class StartOverBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/reset`."""

    idempotency_key: str | None = None


class ArchiveBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/archive`."""

    reason: str = "asked for"
    idempotency_key: str | None = None


class RestoreBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/restore`."""

    idempotency_key: str | None = None


EntryText = Annotated[str, msgspec.Meta(max_length=500)] | None | msgspec.UnsetType


def _stored(name: str) -> str:
    head, *rest = name.split("_")
    return name if name == "idempotency_key" else head + "".join(map(str.capitalize, rest))


class EntryBody(Body, frozen=True, kw_only=True, rename=_stored):
    """`PATCH /v1/sessions/{id}`: fields of the session store, null clears one (I-4)."""

    label: EntryText = msgspec.UNSET
    model_override: EntryText = msgspec.UNSET
    mode_override: EntryText = msgspec.UNSET
    provider_override: EntryText = msgspec.UNSET
    auth_profile_override: EntryText = msgspec.UNSET
    thinking_level: EntryText = msgspec.UNSET
    reasoning_level: EntryText = msgspec.UNSET
    verbose_level: EntryText = msgspec.UNSET
    elevated_level: EntryText = msgspec.UNSET
    send_policy: EntryText = msgspec.UNSET
    chat_type: EntryText = msgspec.UNSET
    provider: EntryText = msgspec.UNSET
    subject: EntryText = msgspec.UNSET
    room: EntryText = msgspec.UNSET
    space: EntryText = msgspec.UNSET
    display_name: EntryText = msgspec.UNSET
    unknown_fields: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Fields of other programs, which are stored and not interpreted; null removes one."""
    idempotency_key: str | None = None


class CompactBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/compact`; `instructions` state what the summary must keep."""

    instructions: str | None = None
    idempotency_key: str | None = None


class LandBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/land` (H-17): `files` are the paths that land, with what lies below them; by default all.
    With `digest`, that of the approval, nothing lands if it has changed since."""

    files: list[str] | None = None
    digest: str | None = None
    comment: str | None = None
    idempotency_key: str | None = None


class DiscardBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/discard` (H-17): `files` are the paths that are discarded, with what is below them; by
    default all."""

    files: list[str] | None = None
    idempotency_key: str | None = None


class ReleaseBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/release`: `to` is the id of the gateway that will control it."""

    to: str
    idempotency_key: str | None = None


class PairingBody(Body, frozen=True, kw_only=True):
    """`POST /v1/runners/pairings`: a name for the host; by default the runner chooses it."""

    device_name: DeviceName = ""
    idempotency_key: str | None = None


class PairBody(Body, frozen=True, kw_only=True):
    """`POST /v1/runners/pair`: the code as it was shown; case, spaces and hyphens do not matter."""

    code: Annotated[str, msgspec.Meta(max_length=64)]
    device_name: DeviceName = ""


class RunnerBody(Body, frozen=True, kw_only=True):
    """`POST /v1/runners/{id}/rotate` and `/revoke`."""

    idempotency_key: str | None = None


class ReplayBody(Body, frozen=True, kw_only=True):
    """`POST /v1/policy/replay`: the rules to try, as in `[[policy.rules]]`; without `rules` those in force."""

    rules: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=500)] | None = None
    session_id: str | None = None
    """Only this session; by default the newest ones."""
    sessions: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    calls: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 200
    """How many calls are judged at most."""
    changed: bool = False
    """Return only those with a different decision."""
    idempotency_key: str | None = None


class RevokeRuleBody(Body, frozen=True, kw_only=True):
    """`POST /v1/policy/rules/{id}/revoke`."""

    idempotency_key: str | None = None


class RevokeKeyBody(Body, frozen=True, kw_only=True):
    """`POST /v1/signing-keys/{id}/revoke`."""

    idempotency_key: str | None = None


class PruneBody(Body, frozen=True, kw_only=True):
    """`POST /v1/prune` (G-5)."""

    older_than_ms: Annotated[int, msgspec.Meta(ge=PRUNE_MIN_MS, le=PRUNE_MAX_MS)]
    dry_run: bool = False
    idempotency_key: str | None = None


class WebhookBody(Body, frozen=True, kw_only=True):
    """`POST /v1/webhooks/{name}/test` and `POST /v1/webhooks/deliveries/{id}/retry`."""

    idempotency_key: str | None = None
