"""First-match policy (P-1): an ordered list of rules decides allow, ask or deny for a command or a tool call.

Doubt never helps a call through: an `allow` rule must cover the whole command line and every path, from their start;
an `ask` or `deny` rule is met by any path, at any depth.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from interlock.command.globs import any_glob, fits_glob, is_one_of, path_glob
from interlock.protocol.limits import APPROVAL_TTL_MAX_MS

Door = Literal["command", "tool"]
Effect = Literal["allow", "ask", "deny"]
Origin = Literal["user", "agent", "cron", "hook", "flush", "system"]
Permission = Literal["asks", "never"]
Source = Literal["config", "remembered", "shipped"]

VERBS = ("cancel", "pause", "resume", "close", "compact", "reset", "patch", "archive", "restore", "release", "drain",
         "undrain", "label", "branch", "fork", "import", "repair")
"""What is answered at once. A cancel is never held (C-2)."""
COMMAND_TYPES = ("execute", *VERBS)
"""What a rule's `type` may say. A rule that says none concerns what starts, an execute, and none of the verbs."""

MATCH_CHARS = 65_536
"""A command line longer than this meets no `allow` rule's `command`, and every `ask` and `deny` rule's."""

_DURATION = re.compile(r"([1-9][0-9]*)(s|m|h|d)")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HOURS = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])")


class Subject(NamedTuple):
    """What is decided on. `door` tells which half of the fields is set."""

    door: Door
    tenant_id: str
    agent_id: str
    origin: Origin
    permission: Permission
    at_ms: int
    command_type: str | None = None
    tool_name: str | None = None
    tool_kind: str | None = None
    """The agent's own word (ACP kind); believed only where `trusted_kinds` says so."""
    trusted_kinds: bool = False
    command_line: str | None = None
    paths: tuple[str, ...] = ()
    """Relative to the workspace where they lie under it, else absolute."""
    allowed_tools: tuple[str, ...] = ()
    """`tools` of the command that the turn belongs to."""
    cost_usd: float = 0.0
    command_only: bool = False
    """The input is a command line and words about it: nothing else in it changes what is done."""
    session_id: str | None = None
    digest: str | None = None
    """SHA-256 of the input as received, hex (P-2)."""


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A quorum's part: at least `min` of the votes come from people of `role`."""

    role: str
    min: int = 1


class Verdict(NamedTuple):
    """What the first matching rule says. `rule` is its name, shown to everyone who is asked."""

    effect: Effect
    rule: str
    required: int = 1
    ttl_ms: int | None = None
    reason: str | None = None
    self_approval: bool = True
    groups: tuple[Group, ...] = ()
    deny_threshold: int = 1
    signed: bool = False


class Step(NamedTuple):
    """One rule as a decision passed it: `missed` is the match field that does not hold, None where the rule fits."""

    rule: str
    source: Source
    effect: Effect
    missed: str | None


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[policy.rules]]`: every match field that is set must hold; a list holds when one of its members does.

    `tool`, `kind` and `agent` are globs. `command` is a regular expression for the whole line, `command_line` the line
    itself. `path` is a glob: `*` stays inside one directory, `**` does not. `digest` is the SHA-256 of the input, hex.
    `hours` is "09:00-18:00" in `zone`. `ttl` is "90s", "15m", "24h" or "2d". With `signed` only votes by signature
    count. Raises ValueError with one sentence that begins with the field's name.
    """

    name: str
    effect: Effect
    tenant: str | None = None
    door: Door | None = None
    type: str | list[str] | None = None
    agent: str | list[str] | None = None
    origin: Origin | list[Origin] | None = None
    tool: str | list[str] | None = None
    kind: str | list[str] | None = None
    command: str | None = None
    command_line: str | list[str] | None = None
    path: str | list[str] | None = None
    session: str | None = None
    digest: str | None = None
    permission: Permission | None = None
    cost_over: float | None = None
    hours: str | None = None
    zone: str = "UTC"
    required: int = 1
    groups: list[Group] = []
    deny_threshold: int = 1
    ttl: str | None = None
    reason: str | None = None
    self_approval: bool = msgspec.field(name="self", default=True)
    signed: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: a rule needs a name, which people are shown")
        _check_types(self.type, self.effect)
        if self.required < 1 or self.deny_threshold < 1:
            raise ValueError("required: at least one vote is needed, for a yes as for a no")
        if self.command is not None:
            _check_pattern(self.command)
        if self.hours is not None and _HOURS.fullmatch(self.hours) is None:
            raise ValueError('hours: write a span of the day as "09:00-18:00"')
        _check_zone(self.zone)
        if self.ttl is not None and not 0 < duration_ms(self.ttl) <= APPROVAL_TTL_MAX_MS:
            raise ValueError("ttl: an approval lives 30 days at most")

    def verdict(self) -> Verdict:
        """Write what the rule says."""
        return Verdict(
            self.effect,
            self.name,
            self.required,
            duration_ms(self.ttl) if self.ttl else None,
            self.reason,
            self.self_approval,
            tuple(self.groups),
            self.deny_threshold,
            self.signed,
        )

    def missed(self, subject: Subject) -> str | None:
        """Name the first match field that does not hold, None where all do."""
        for name, fits in _MATCHES:
            if not fits(self, subject):
                return name
        return None

    def fits_cost(self, cost_usd: float) -> bool:
        """Whether the session has cost more than `cost_over`."""
        return self.cost_over is None or cost_usd > self.cost_over

    def fits_hours(self, at_ms: int) -> bool:
        """Whether the moment lies in `hours` of `zone`."""
        if self.hours is None:
            return True
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(self.zone))
        minute = moment.hour * 60 + moment.minute
        first, last = (int(part[:2]) * 60 + int(part[3:]) for part in self.hours.split("-"))
        # A span that ends before it begins goes over midnight.
        return first <= minute < last if first <= last else minute >= first or minute < last

    def fits_command(self, line: str | None) -> bool:
        """Whether the whole command line is what `command` says."""
        if self.command is None:
            return True
        if line is None:
            return False
        if len(line) > MATCH_CHARS:
            return self.effect != "allow"
        return re.fullmatch(self.command, line, re.DOTALL) is not None

    def fits_paths(self, paths: tuple[str, ...]) -> bool:
        """Whether the paths are what `path` says: all of them to allow, any of them to ask or deny."""
        if self.path is None:
            return True
        patterns = [self.path] if isinstance(self.path, str) else self.path
        strict = self.effect == "allow"
        fits = [any(path_glob(pattern, not strict).fullmatch(posixpath.normpath(path)) for pattern in patterns)
                for path in paths]
        return bool(fits) and (all(fits) if strict else any(fits))


_MATCHES: tuple[tuple[str, Callable[[Rule, Subject], bool]], ...] = (
    ("tenant", lambda rule, subject: rule.tenant is None or rule.tenant == subject.tenant_id),
    ("door", lambda rule, subject: rule.door is None or rule.door == subject.door),
    ("session", lambda rule, subject: rule.session is None or rule.session == subject.session_id),
    ("permission", lambda rule, subject: rule.permission is None or rule.permission == subject.permission),
    ("type", lambda rule, subject: _fits_type(rule.type, subject.command_type)),
    ("origin", lambda rule, subject: is_one_of(rule.origin, subject.origin)),
    ("agent", lambda rule, subject: fits_glob(rule.agent, subject.agent_id)),
    ("tool", lambda rule, subject: fits_glob(rule.tool, subject.tool_name)),
    ("kind", lambda rule, subject: fits_glob(rule.kind, subject.tool_kind)),
    ("cost_over", lambda rule, subject: rule.fits_cost(subject.cost_usd)),
    ("hours", lambda rule, subject: rule.fits_hours(subject.at_ms)),
    ("command_line", lambda rule, subject: is_one_of(rule.command_line, subject.command_line)),
    ("command", lambda rule, subject: rule.fits_command(subject.command_line)),
    ("path", lambda rule, subject: rule.fits_paths(subject.paths)),
    ("digest", lambda rule, subject: rule.digest is None or rule.digest == subject.digest),
)
"""The match fields in the order in which they are looked at, the cheap ones first."""


def duration_ms(text: str) -> int:
    """Read "90s", "15m", "24h" or "2d". Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError('ttl: write a duration as "90s", "15m", "24h" or "2d"')
    return int(found[1]) * _UNIT_MS[found[2]]


def _check_types(types: str | list[str] | None, effect: Effect) -> None:
    """A mistyped type would hold nothing, silently."""
    for name in [types] if isinstance(types, str) else types or ():
        if name not in COMMAND_TYPES:
            raise ValueError(f"type: there is no {name}; the types are {', '.join(COMMAND_TYPES)}")
        if name == "cancel" and effect != "allow":
            raise ValueError("type: a cancel is never held; whoever may send it may stop what runs")


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"command: not a regular expression: {error}") from None


def _check_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f'zone: there is no time zone "{zone}" on this machine') from None


def _fits_type(wanted: str | list[str] | None, value: str | None) -> bool:
    """A rule that names no type was written for what starts: it must not keep anyone from ending it."""
    return value in (None, "execute") if wanted is None else is_one_of(wanted, value)


SHIPPED: tuple[Rule, ...] = (
    Rule(name="memory flush writes memory", effect="allow", door="tool", origin="flush", kind="edit",
         path="memory/*.md"),
    Rule(name="memory flush does nothing else", effect="deny", origin="flush", door="tool",
         reason="A memory flush may only write memory/*.md."),
    Rule(name="no command during a flush", effect="deny", origin="flush", door="command", type="execute",
         reason="A memory flush starts no command."),
    Rule(name="people may start agents that ask", effect="allow", door="command", type="execute", origin="user",
         permission="asks"),
    Rule(name="ask before an execute", effect="ask", door="command", type="execute"),
    Rule(name="steering needs no approval", effect="allow", door="command", type=list(VERBS)),
)
"""The shipped default's rules that a rule can say; the two that need a judgement stand in `_judged` (P-1)."""

NAMED_BY_COMMAND = Verdict("allow", "the command names this tool")
TRUSTED_READ = Verdict("allow", "reads of an agent whose kinds are trusted")
ASK_BEFORE_TOOL = Verdict("ask", "ask before a tool")
READ_KINDS = frozenset({"read", "search"})


_Fits = Callable[[Subject], bool]
_Place = tuple[str, str, str, str | None, str, str]
"""Door, tenant, permission, type, origin and agent of a subject: few of them come again and again."""
STEADY = frozenset({"tenant", "permission", "type", "origin", "agent"})
"""The match fields that a place alone decides."""
MAX_PLACES = 1_024
"""Places whose rules are remembered; past it all are looked for anew."""


class _Ready(NamedTuple):
    """A rule as decisions ask it: its match fields that are set, but for `door`, and what it says."""

    steady: tuple[_Fits, ...]
    others: tuple[_Fits, ...]
    verdict: Verdict


def _ready(rules: Iterable[Rule], door: Door) -> list[_Ready]:
    always = ("type",) if door == "command" else ()  # It says something where it is left out, too.

    def fields(rule: Rule, *, steady: bool) -> tuple[_Fits, ...]:
        return tuple(_field(rule, name, fits) for name, fits in _MATCHES if (name in STEADY) is steady
                     and (name in always or (name != "door" and getattr(rule, name) is not None)))

    return [_Ready(fields(rule, steady=True), fields(rule, steady=False), rule.verdict())
            for rule in rules if rule.door in (None, door)]


def _field(rule: Rule, name: str, fits: Callable[[Rule, Subject], bool]) -> _Fits:
    value_of = _GLOBS.get(name)
    if value_of is None:
        return partial(fits, rule)
    pattern = any_glob(getattr(rule, name))

    def matches(subject: Subject) -> bool:
        value = value_of(subject)
        return value is not None and pattern.match(value) is not None

    return matches


_GLOBS: dict[str, Callable[[Subject], str | None]] = {
    "agent": lambda subject: subject.agent_id, "tool": lambda subject: subject.tool_name,
    "kind": lambda subject: subject.tool_kind,
}


class Policy:
    """The rules in force. Order: the config's denials and quorums, remembered rules, the rest of the config, and
    then the shipped default (P-1)."""

    def __init__(self, rules: Iterable[Rule] = (), remembered: Iterable[Rule] = ()) -> None:
        self._config = tuple(rules)
        self._ordered: Sequence[tuple[Source, Rule]] = (
            *(("config", rule) for rule in self._config if _goes_first(rule)),
            *(("remembered", rule) for rule in remembered),
            *(("config", rule) for rule in self._config if not _goes_first(rule)),
        )
        self._by_door = {door: (*_ready(self.rules, door), *_ready(SHIPPED, door)) for door in get_args(Door)}
        self._places: dict[_Place, list[_Ready]] = {}

    @property
    def rules(self) -> Sequence[Rule]:
        """The config's and the remembered rules, in the order in which they are asked."""
        return tuple(rule for _, rule in self._ordered)

    def listed(self) -> Sequence[tuple[Source, Rule]]:
        """All rules that a rule can say, in order, each with where it comes from."""
        return (*self._ordered, *(("shipped", rule) for rule in SHIPPED))

    def remembering(self, rules: Iterable[Rule]) -> Policy:
        """The same config with other remembered rules."""
        return Policy(self._config, rules)

    def decide(self, subject: Subject) -> Verdict:
        """Say what the first matching rule says. A flush never asks a person: where it would, it is denied (Z-5)."""
        verdict = next((rule.verdict for rule in self._rules_at(subject) if _holds(rule.others, subject)),
                       None) or _judged(subject)
        if subject.origin == "flush" and verdict.effect == "ask":
            return verdict._replace(effect="deny", reason="A memory flush never asks a person.")
        return verdict

    def _rules_at(self, subject: Subject) -> list[_Ready]:
        """The rules that can fit where the subject stands, in order: what its place decides is asked once."""
        place = (subject.door, subject.tenant_id, subject.permission, subject.command_type, subject.origin,
                 subject.agent_id)
        found = self._places.get(place)
        if found is None:
            if len(self._places) >= MAX_PLACES:
                self._places.clear()
            found = self._places[place] = [rule for rule in self._by_door[subject.door]
                                           if _holds(rule.steady, subject)]
        return found

    def explain(self, subject: Subject) -> list[Step]:
        """Go through the rules as `decide` does, up to the one that decides."""
        steps: list[Step] = []
        for source, rule in self.listed():
            steps.append(Step(rule.name, source, rule.effect, rule.missed(subject)))
            if steps[-1].missed is None:
                return steps
        verdict = _judged(subject)
        return [*steps, Step(verdict.rule, "shipped", verdict.effect, None)]


def _goes_first(rule: Rule) -> bool:
    """Denials and quorums: what nobody's "always" may pass by."""
    return rule.effect == "deny" or (
        rule.effect == "ask" and (rule.required > 1 or bool(rule.groups) or rule.signed or not rule.self_approval)
    )


def _holds(fields: tuple[_Fits, ...], subject: Subject) -> bool:
    return not fields or all(fits(subject) for fits in fields)


def _judged(subject: Subject) -> Verdict:
    """The end of the shipped default, which no rule can say."""
    if subject.tool_name is not None and subject.tool_name in subject.allowed_tools:
        return NAMED_BY_COMMAND
    if subject.trusted_kinds and subject.tool_kind in READ_KINDS:
        return TRUSTED_READ
    return ASK_BEFORE_TOOL
