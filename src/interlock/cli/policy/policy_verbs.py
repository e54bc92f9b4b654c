"""`interlock policy`: the rules in force, and their decision on a call, an approval, or recorded calls (P-1, A-9)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.progress import so_far
from interlock.cli.display.terminal import one_line, print_sentence, print_table, say
from interlock.cli.display.values import ago, count, not_a_glob, rule_line
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.options import NAMED_DIRECTORY, Json
from interlock.cli.policy.rule_replay import replay_sessions, rules_in_force
from interlock.cli.verb_answer import ListTable, print_answer, print_value
from interlock.cli.verb_error import Trouble, usage
from interlock.command.policy.policy import RuleSet
from interlock.protocol.answers import Explanation, PolicyRules, RuleList
from interlock.protocol.api.approvals import EXPLAIN_APPROVAL
from interlock.protocol.api.policy import DECIDE, GET_POLICY, LIST_REMEMBERED_RULES
from interlock.protocol.api.sessions import LIST_SESSIONS
from interlock.protocol.policy_replay import ReplayedCall
from interlock.protocol.resources import RememberedRule, Session
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.base import read
from interlock.sdk.requests.policy import revoke_rule

IN_FORCE = Layout(text=("MEANING", "RULE"), drop=("FROM",))
REMEMBERED = ListTable[RuleList](
    header=("RULE", "STATE", "BY", "CREATED", "MEANING"),
    rows=lambda answer: [[one.id, state_of(one), one.created_by, ago(one.created_at), rule_line(one.rule, None)]
                         for one in answer.rules],
    layout=Layout(text=("MEANING",), drop=("CREATED", "BY")),
    empty="nothing is remembered; say always with: interlock approve ID --always session")
RULE = short_ids.IdKind("remembered rule", LIST_REMEMBERED_RULES.at(), "rul_", "policy")
NOT_KNOWN = {
    "command": "the command is not on record, so its person, its origin and the tools that it named are not known",
    "driver": "an agent gave the command, and who drives that agent is not on record",
    "trusted_kinds": "the agent named the tool's kind; whether that is believed is taken from today's config",
}
"""Descriptions by `replay` of calls of which something is not recorded, by the names in `ReplayedCall.unknown`."""
SESSIONS_REPLAYED = 20
"""Maximum number of sessions of `policy replay` without --limit, the newest first."""


def show(*, all_: Annotated[bool, Parameter(name="--all", help="Include the rules for memory flushes, which "
                                                               "apply to no person's task.")] = False,
         json: Json = False, where: Here = NOWHERE) -> int:
    """Show the rules in force, in the order in which they are asked."""
    return print_answer(where, read(GET_POLICY), lambda answer: print_rules(answer, flushes=all_), json=json)


def print_rules(answer: PolicyRules, *, flushes: bool) -> None:
    """Print the rules in force with their numbers, and how many were left out; `flushes` includes those for memory
    flushes."""
    shown = [(number, rule) for number, rule in enumerate(answer.rules, 1)
             if flushes or rule.get("origin") != "flush"]
    print_table([[str(number), str(rule.get("source")), str(rule.get("name")), rule_line(rule, None)]
                 for number, rule in shown], ("", "FROM", "RULE", "MEANING"), IN_FORCE)
    left = len(answer.rules) - len(shown)
    left_out = f" Not shown: {count(left, 'rule')} for memory flushes (--all)." if left else ""
    say(f"The first that fits decides; what none fits is asked for.{left_out} Try one: interlock policy test AGENT "
        "\"…\"", "dim")


def try_(
    agent: Annotated[str, Parameter(help="The agent that makes the call.")],
    command_line: Annotated[str | None, Parameter(name="COMMAND", help="The command line that it would run.")] = None,
    /,
    *,
    tool: Annotated[str | None, Parameter(help="The tool's name, according to the agent.")] = None,
    path: Annotated[str | None, Parameter(help="A path in the tool's input.")] = None,
    kind: Annotated[str | None, Parameter(help="The kind of tool, according to the agent: read, edit, "
                                               "execute, …")] = None,
    input_: Annotated[str | None, Parameter(name="--input", help="The tool's whole input, a JSON object.")] = None,
    subject: Annotated[str | None, Parameter(
        help="The whole permission request, a JSON object, as shown by `interlock approvals ID --json`.")] = None,
    workspace: Annotated[Path | None, NAMED_DIRECTORY, Parameter(help="The agent's workspace (default: here).")] = None,
    door: Annotated[Literal["tool", "command"], Parameter(help="What to test: a tool call, or the start of "
                                                               "a command (default: tool).")] = "tool",
    origin: Annotated[Literal["user", "agent", "cron", "hook"], Parameter(
        help="The origin of the command (default: user).")] = "user",
    permission: Annotated[Literal["asks", "never"], Parameter(
        help="Whether the agent asks before its tools (default: asks).")] = "asks",
    box: Annotated[str | None, Parameter(help="The parts of the agent's box, such as walls,writes,network.")] = None,
    runner: Annotated[str | None, Parameter(help="The agent's runner.")] = None,
    person: Annotated[str | None, Parameter(help="The person whose command it is, such as user:ann.")] = None,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Say which rule decides a call, and why the rules before it do not. Nothing is run."""
    parameters = {"agent": agent, "door": door, "origin": origin, "permission": permission, "tool": tool, "path": path,
                  "kind": kind, "input": input_, "command": command_line, "subject": subject,
                  "workspace": str((workspace or Path.cwd()).absolute()), "box": box, "runner": runner,
                  "person": person}
    if subject is not None and any(one is not None for one in (command_line, tool, path, kind, input_)):
        raise usage("--subject is the whole request.", "Give it alone.")
    if input_ is not None and (command_line is not None or path is not None):
        raise usage("--input is the whole input.", "Give it, or a command line and --path.")
    return print_answer(where, read(DECIDE, **parameters), _show_explained, json=json)


def explain(
    id_: Annotated[str, Parameter(name="ID", help="The approval: its id, a unique beginning, or @last.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Say which rule decides an approval's call as the rules are now, and why the ones before it do not."""
    opened = ""

    async def request(link: GatewayLink) -> RequestSpec[Explanation]:
        nonlocal opened
        approval = await short_ids.approval(link, id_)
        opened = f"approval {approval.id} was opened by the rule: {one_line(approval.rule)}"
        return read(EXPLAIN_APPROVAL, approval.id)

    def show(explanation: Explanation) -> None:
        say(opened, "dim")
        _show_explained(explanation)

    return print_answer(where, request, show, json=json)


def replay(
    *,
    file: Annotated[Path | None, Parameter(help="A config file with the rules to try (default: the rules in "
                                                "force).")] = None,
    session: Annotated[str | None, Parameter(help="Only this session: an id, a unique beginning, a key.")] = None,
    limit: Annotated[int, Parameter(
        help=f"The number of newest sessions (default: {SESSIONS_REPLAYED}).")] = SESSIONS_REPLAYED,
    changed: Annotated[bool, Parameter(help="Show only calls that would be decided differently.")] = False,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Hold the rules against the tool calls of recorded sessions: what was decided, and what they would say now."""
    if limit < 1:
        raise usage("--limit is a number of sessions, 1 or more.")
    policy = _candidate(file) if file is not None else None
    async def find(link: GatewayLink) -> tuple[int, list[ReplayedCall]]:
        chosen = [await short_ids.session(link, session)] if session is not None else await link.list(
            LIST_SESSIONS.at(), Session, None, limit)
        calls: list[ReplayedCall] = []
        async for call in replay_sessions(link, chosen, policy or await rules_in_force(link)):
            calls.append(call)
            so_far(f"{len(calls)} tool calls")
        return len(chosen), calls

    replayed, calls = ask_gateway(where, find)

    def show(found: dict[str, list[ReplayedCall]]) -> None:
        for call in found["calls"]:
            print_sentence(_replayed_line(call))
        differ = sum(call.changed for call in calls)
        say(f"{count(len(calls), 'tool call')} in {count(replayed, 'session')}; {differ} would be decided otherwise",
            "dim")
        for name, sentence in NOT_KNOWN.items():
            if of := sum(name in call.unknown for call in calls):
                say(f"  {count(of, 'call')}: {sentence}", "dim")

    return print_value({"calls": [call for call in calls if call.changed or not changed]}, show, json=json)


def use(
    *names: Annotated[str, Parameter(
        name="PRESET", help="readonly, edits, ci or boxed; several combine; none removes them all.")],
    where: Here = NOWHERE,
) -> int:
    """Use ready-made rules, behind your own; those that were used before and are not named are no longer in force."""
    from interlock.cli.policy.presets import use_presets

    return use_presets(names, where)


def rules(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List what people always allow or never allow."""
    return print_answer(where, read(LIST_REMEMBERED_RULES), REMEMBERED.show, json=json)


def forget(
    id_: Annotated[str, Parameter(name="ID", help="The rule: its id, a unique beginning, or @last.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Revoke a remembered rule: the next such call is asked for again."""
    async def request(link: GatewayLink) -> RequestSpec[RememberedRule]:
        found = (await link.ask(read(LIST_REMEMBERED_RULES))).rules
        if id_ == short_ids.LAST:
            found = [one for one in found if one.revoked_at is None]
        rule = short_ids.pick(id_, found, RULE, lambda one: one.id, lambda one: one.created_at)
        if rule.revoked_at is not None:
            raise Trouble("Conflict", f"{rule.id} was revoked already, by {rule.revoked_by}.",
                          "See: interlock policy rules")
        return revoke_rule(rule.id)

    return print_answer(where, request, lambda rule: print_sentence(
        f"{rule.id} is revoked; such a call is asked for again"), json=json)


def _show_explained(explanation: Explanation) -> None:
    more = f", {explanation.required} must say yes" if explanation.effect == "ask" and explanation.required > 1 else ""
    why = f": {one_line(explanation.reason)}" if explanation.reason else ""
    print_sentence(f"{explanation.effect}{more} · by the rule {one_line(explanation.rule)}{why}")
    for step in explanation.steps:
        missed = f"does not fit: {step.get('missed')}" if step.get("missed") else "fits"
        say(f"  {step.get('source')} · {one_line(str(step.get('rule')))} · {missed}", "dim")
        if glob := step.get("glob"):
            say(f"    {not_a_glob(glob)}", "bold")
    if explanation.unclear:
        say(f"no allow rule about its input covers this call: {one_line(explanation.unclear)}", "dim")


def _candidate(file: Path) -> RuleSet:
    from interlock import config

    if not file.is_file():
        raise usage(f"There is no file {file}.", "Name a config file with [[policy.rules]].")
    try:
        return RuleSet(config.load(file).policy.in_force)
    except config.ConfigError as error:
        raise usage(error.sentences[0], f"See all with: interlock config check --state {file.parent}") from None


def _replayed_line(call: ReplayedCall) -> str:
    what = one_line(f"{call.tool} {call.what}", 80)
    was = f"was {call.was} ({one_line(call.was_rule, 40)})"
    now = f"now {call.now} ({one_line(call.now_rule, 40)})"
    return f"{'≠' if call.changed else '='} {call.session_id[:8]} {what} · {was} · {now}"


def state_of(remembered: RememberedRule) -> str:
    """Return the state of a remembered rule: revoked, in force, until when, or not in force."""
    if remembered.revoked_at:
        return "revoked"
    until = remembered.rule.get("until")
    if remembered.rule.get("effect") == "allow" and until is None:
        return "not in force"  # Of an earlier version: without place and validity (H-8).
    return f"until {until[:10]}" if isinstance(until, str) else "in force"
