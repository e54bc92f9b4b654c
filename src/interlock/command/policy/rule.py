"""A rule of policy: its scope, whom it concerns, its decision (P-1). `coverage` compares it with an input."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from interlock.command.facts.request import RequestFacts
from interlock.command.policy.coverage import CoverageTerms, check_command, check_words, meets, uncovered
from interlock.command.policy.globs import MAX_GLOB_CHARS, fits_glob, is_one_of
from interlock.command.policy.patterns import reads_as_glob
from interlock.protocol.box import CLOSED, Part
from interlock.protocol.clock import parse_iso
from interlock.protocol.limits import APPROVAL_TTL_MAX_MS
from interlock.protocol.policy_terms import COMMAND_TYPES, Door, Origin, Permission

Effect = Literal["allow", "ask", "deny"]
Source = Literal["config", "remembered", "shipped"]

ShellPart = Literal["pipe", "and", "or", "sequence"]
"""Values of a rule's `shell`: how several simple commands are joined in one line."""

_DURATION = re.compile(r"([1-9][0-9]*)(s|m|h|d)")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HOURS = re.compile(r"{0}-{0}".format(r"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00)"))


NO_FACTS = RequestFacts()


class PolicySubject(msgspec.Struct, frozen=True):
    """What is decided on. `door` determines which half of the fields is set."""

    door: Door
    tenant_id: str
    agent_id: str
    origin: Origin
    permission: Permission
    at_ms: int
    command_type: str | None = None
    tool_name: str | None = None
    tool_kind: str | None = None
    """The agent's own word (ACP kind); trusted only if `trusted_kinds` is set."""
    trusted_kinds: bool = False
    facts: RequestFacts = NO_FACTS
    """The facts of the tool's input (H-6)."""
    allowed_tools: tuple[str, ...] = ()
    """`tools` of the command that the turn belongs to: the only ones that it may use; empty permits all (H-9)."""
    cost_usd: float = 0.0
    session_id: str | None = None
    digest: str | None = None
    """SHA-256 of the input as received, hex (P-2)."""
    runner_id: str | None = None
    workspace: str | None = None
    person: str | None = None
    """The session's person: `user:ann`, or the person who drives the agent that asked."""
    box: tuple[Part, ...] = ()
    """What holds the opening that asks, as its runner reported (H-18)."""
    workspace_files: tuple[str, ...] = ()
    """Files that configure the agent, by their paths relative to the workspace (H-13)."""


class QuorumGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a quorum: at least `min` of the votes are from people of `role`."""

    role: str
    min: int = 1


class PolicyVerdict(NamedTuple):
    """The verdict of the first matching rule. `rule` is its name, shown to everyone who is asked."""

    effect: Effect
    rule: str
    required: int = 1
    ttl_ms: int | None = None
    reason: str | None = None
    self_approval: bool = True
    groups: tuple[QuorumGroup, ...] = ()
    deny_threshold: int = 1
    signed: bool | Literal["passkey"] = False
    require_independent: bool = False
    below: bool = False
    """A program that it allows to start may start any program (H-16)."""
    dangerous: bool = False
    """It must be decided on its complete card: a chat shows a link instead of buttons (O-12)."""


class RuleStep(NamedTuple):
    """A rule in the evaluation of a decision: `missed` is the match field that does not hold, None if the rule
    matches. `glob` is the rule's expression that looks like a glob, if that field is the one of expressions."""

    rule: str
    source: Source
    effect: Effect
    missed: str | None
    glob: str | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[policy.rules]]`: every match field that is set must hold; a list holds if one of its members does.

    `tool`, `kind`, `agent` and `url` are globs. `words` is a program and its words, `command` a regular expression of
    RE2 for one simple command, `command_line` the whole line itself; `shell` names the operators that an allow rule
    permits between its commands. `path` is a glob: `*` stays inside one directory, `**` does not. `digest` is the
    SHA-256 of the input, hex. `hours` is "09:00-18:00" in `zone`; `until` is the moment from which the rule is no
    longer valid. `box` is true for an agent whose walls keep its writes and its network (H-18), or names parts that it
    must have. `workspace_files` are globs of the files that configure an agent, at the door `workspace`, to which only
    rules that name it apply: an allow rule must fit every file, another one needs one (H-13). `ttl` is "90s", "15m",
    "24h" or "2d". With `signed` only votes by signature count, with `signed = "passkey"` only those with a passkey,
    with `require_independent` no two that one person could have cast and none that the one who asked could have. With
    `below` a program of a boxed agent that an allow rule lets start may start any program (H-16). An ask rule marked
    `dangerous` is decided on the whole card, by no button in a chat and by no "always" (O-12). An allow rule with a
    condition on the input must cover all of it (H-6). Raises ValueError with one sentence that begins with the field's
    name.
    """

    name: str
    effect: Effect
    tenant: str | None = None
    door: Door | None = None
    type: str | list[str] | None = None
    agent: str | list[str] | None = None
    runner: str | list[str] | None = None
    workspace: str | list[str] | None = None
    person: str | list[str] | None = None
    origin: Origin | list[Origin] | None = None
    tool: str | list[str] | None = None
    kind: str | list[str] | None = None
    words: str | list[str] | None = None
    command: str | list[str] | None = None
    command_line: str | list[str] | None = None
    shell: list[ShellPart] = []
    path: str | list[str] | None = None
    url: str | list[str] | None = None
    session: str | None = None
    digest: str | None = None
    described: bool | None = None
    box: bool | list[Part] | None = None
    workspace_files: str | list[str] | None = None
    permission: Permission | None = None
    cost_over: float | None = None
    hours: str | None = None
    zone: str = "UTC"
    until: str | None = None
    required: int = 1
    groups: list[QuorumGroup] = []
    deny_threshold: int = 1
    ttl: str | None = None
    reason: str | None = None
    self_approval: bool = msgspec.field(name="self", default=True)
    signed: bool | Literal["passkey"] = False
    require_independent: bool = False
    below: bool = False
    dangerous: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: a rule needs a name, which people are shown")
        _check_types(self.type, self.effect)
        if self.required < 1 or self.deny_threshold < 1:
            raise ValueError("required: at least one vote is needed, for a yes as for a no")
        if self.below and (self.effect != "allow" or self.door == "command"):
            raise ValueError("below: it lets an allowed program start others; use it with effect = \"allow\"")
        if self.dangerous and self.effect != "ask":
            raise ValueError("dangerous: it marks what people are asked about; use it with effect = \"ask\"")
        self._check_input()
        if self.workspace_files is not None and self.door != "workspace":
            raise ValueError('workspace_files: they are asked about at a door of their own; add door = "workspace"')
        if self.door == "workspace" and says_input(self):
            raise ValueError("door: the input of a tool is not known for files that configure an agent; "
                             "use `workspace_files`")
        if self.hours is not None and _HOURS.fullmatch(self.hours) is None:
            raise ValueError('hours: write a span of the day as "09:00-18:00"')
        _check_zone(self.zone)
        if self.until is not None and moment_ms(self.until) is None:
            raise ValueError('until: write a moment as "2026-12-24T18:00:00Z"')
        if self.ttl is not None and not 0 < duration_ms(self.ttl) <= APPROVAL_TTL_MAX_MS:
            raise ValueError("ttl: an approval lives 30 days at most")

    def _check_input(self) -> None:
        allows = self.effect == "allow"
        for source in listed(self.command):
            check_command(source, allows=allows)
        for source in listed(self.words):
            check_words(source, allows=allows)
        if self.shell and not (self.words or self.command):
            raise ValueError("shell: it names what may stand between the commands of `words` or `command`")
        for name in ("path", "url", "tool", "kind", "agent", "workspace_files"):
            for glob in listed(getattr(self, name)):
                if len(glob) > MAX_GLOB_CHARS:
                    raise ValueError(f"{name}: a glob has at most {MAX_GLOB_CHARS} characters")

    def command_like_glob(self) -> str | None:
        """Return the first expression of `command` that looks like a glob of a shell."""
        return next((source for source in listed(self.command) if reads_as_glob(source)), None)

    def verdict(self) -> PolicyVerdict:
        """Return the rule's verdict."""
        return PolicyVerdict(
            self.effect,
            self.name,
            self.required,
            duration_ms(self.ttl) if self.ttl else None,
            self.reason,
            self.self_approval,
            tuple(self.groups),
            self.deny_threshold,
            self.signed,
            self.require_independent,
            self.below,
            self.dangerous,
        )

    def missed(self, subject: PolicySubject) -> str | None:
        """Return the first match field that does not hold, None if all do."""
        for name, fits in MATCHES:
            if not fits(self, subject):
                return name
        return self.missed_input(subject.facts) if subject.door == "tool" else self._missed_at_command()

    def _missed_at_command(self) -> str | None:
        """Return the field that excludes commands: a rule about a tool's input concerns no command."""
        return "command" if says_input(self) else None

    def fits_cost(self, cost_usd: float) -> bool:
        """Return whether the session has cost more than `cost_over`."""
        return self.cost_over is None or cost_usd > self.cost_over

    def fits_hours(self, at_ms: int) -> bool:
        """Return whether the moment is within `hours` of `zone`."""
        if self.hours is None:
            return True
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(self.zone))
        minute = moment.hour * 60 + moment.minute
        first, last = (int(part[:2]) * 60 + int(part[3:]) for part in self.hours.split("-"))
        # A span that ends before it begins crosses midnight.
        return first <= minute < last if first <= last else minute >= first or minute < last

    def missed_input(self, facts: RequestFacts) -> str | None:
        """Return the first field about the input that does not hold, None if all do: every fact covered to allow, one
        matched to ask or deny (H-6)."""
        wanted = _wanted(self)
        if self.effect != "allow":
            return meets(wanted, facts) if wanted.says_something else None
        if wanted.says_something:
            return uncovered(wanted, facts)
        if self.digest is not None and facts.described:
            return "digest"
        return "input" if facts.unclear is not None else None


def listed(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one, several or none as a tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


@lru_cache(maxsize=4_096)
def _wanted_of(command: tuple[str, ...], command_line: tuple[str, ...], words: tuple[str, ...], path: tuple[str, ...],
               url: tuple[str, ...], shell: tuple[str, ...]) -> CoverageTerms:
    return CoverageTerms(command, command_line, words, path, url, frozenset(shell))


def _wanted(rule: Rule) -> CoverageTerms:
    return _wanted_of(listed(rule.command), listed(rule.command_line), listed(rule.words), listed(rule.path),
                      listed(rule.url), tuple(rule.shell))


def says_input(rule: Rule) -> bool:
    """Return whether a rule has a condition on a tool's input, besides its digest."""
    return _wanted(rule).says_something


@lru_cache(maxsize=1_024)
def moment_ms(text: str) -> int | None:
    """Return a rule's moment in milliseconds; None if it is not one."""
    try:
        return parse_iso(text)
    except ValueError:
        return None


MATCHES: tuple[tuple[str, Callable[[Rule, PolicySubject], bool]], ...] = (
    ("tenant", lambda rule, subject: rule.tenant is None or rule.tenant == subject.tenant_id),
    ("door", lambda rule, subject: concerns(rule, subject.door)),
    ("session", lambda rule, subject: rule.session is None or rule.session == subject.session_id),
    ("permission", lambda rule, subject: rule.permission is None or rule.permission == subject.permission),
    ("type", lambda rule, subject: fits_type(rule.type, subject.command_type)),
    ("origin", lambda rule, subject: is_one_of(rule.origin, subject.origin)),
    ("agent", lambda rule, subject: fits_glob(rule.agent, subject.agent_id)),
    ("runner", lambda rule, subject: is_one_of(rule.runner, subject.runner_id)),
    ("workspace", lambda rule, subject: is_one_of(rule.workspace, subject.workspace)),
    ("person", lambda rule, subject: is_one_of(rule.person, subject.person)),
    ("tool", lambda rule, subject: fits_glob(rule.tool, subject.tool_name)),
    ("kind", lambda rule, subject: fits_glob(rule.kind, subject.tool_kind)),
    ("box", lambda rule, subject: fits_box(rule.box, subject.box)),
    ("described", lambda rule, subject: rule.described is None or rule.described is subject.facts.described),
    ("workspace_files", lambda rule, subject: fits_files(rule, subject.workspace_files)),
    ("until", lambda rule, subject: rule.until is None or subject.at_ms < (moment_ms(rule.until) or 0)),
    ("cost_over", lambda rule, subject: rule.fits_cost(subject.cost_usd)),
    ("hours", lambda rule, subject: rule.fits_hours(subject.at_ms)),
    ("digest", lambda rule, subject: rule.digest is None or rule.digest == subject.digest),
)
"""The match fields in the order of evaluation, the cheap ones first; the input comes last."""


def concerns(rule: Rule, door: Door) -> bool:
    """Return whether a rule applies to this door. A rule that names none was written for commands and tools: allowing
    an agent does not allow a repository's configuration of it."""
    return rule.door == door or (rule.door is None and door != "workspace")


def fits_box(wanted: bool | list[Part] | None, found: Sequence[Part]) -> bool:
    """Return whether a rule's `box` matches: true for a closed box, false for any that is not, a list for one with all
    of it."""
    if wanted is None:
        return True
    if isinstance(wanted, list):
        return bool(wanted) and set(wanted) <= set(found)
    return wanted is (set(CLOSED) <= set(found))


def fits_files(rule: Rule, files: Sequence[str]) -> bool:
    """Return whether a rule's `workspace_files` match: every file to allow, one to ask or deny."""
    globs = listed(rule.workspace_files)
    if not globs:
        return rule.workspace_files is None
    fits = [any(fnmatchcase(file, glob) for glob in globs) for file in files]
    return bool(fits) and (all(fits) if rule.effect == "allow" else any(fits))


def duration_ms(text: str) -> int:
    """Read "90s", "15m", "24h" or "2d". Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError('ttl: write a duration as "90s", "15m", "24h" or "2d"')
    return int(found[1]) * _UNIT_MS[found[2]]


def _check_types(types: str | list[str] | None, effect: Effect) -> None:
    """Check the types: a mistyped type would match nothing, silently."""
    for name in [types] if isinstance(types, str) else types or ():
        if name not in COMMAND_TYPES:
            raise ValueError(f"type: there is no {name}; the types are {', '.join(COMMAND_TYPES)}")
        if name == "cancel" and effect != "allow":
            raise ValueError("type: a cancel is never held: a person who may send it may stop what runs")


def _check_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f'zone: there is no time zone "{zone}" on this machine') from None


def fits_type(wanted: str | list[str] | None, value: str | None) -> bool:
    """Return whether the type matches. A rule that names no type was written for commands that start work: it must not
    prevent ending it."""
    return value in (None, "execute") if wanted is None else is_one_of(wanted, value)
