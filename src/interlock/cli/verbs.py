"""The table of verbs: name, place, one line, examples. A verb's module is imported when the verb is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock import __version__

if TYPE_CHECKING:
    from cyclopts import App, Group


class CliVerb(NamedTuple):
    """One verb of the command line; `place` is `module:function`, the module by its name within `interlock.cli`."""

    name: str
    place: str
    line: str
    examples: tuple[str, ...] = ()
    shown: bool = True

    @property
    def target(self) -> str:
        """Return the complete name of the function, as cyclopts imports it."""
        return f"interlock.cli.{self.place}"


DAILY, THINGS, SETUP = "Work with agents", "Lists and settings", "Set-up and administration"
"""The headings of the help, in this order."""

DAILY_VERBS: tuple[CliVerb, ...] = (
    CliVerb("up", "host.up:up", "Start a gateway and a runner here, until Ctrl-C.",
            ("interlock up", "interlock up --root ~/work --root ~/notes")),
    CliVerb("run", "tasks.run:run", "Send an agent a prompt, and follow the task until it ends.",
            ('interlock run shell "ls -l"', 'interlock run claude "fix the failing test" --timeout 15m',
             "git diff | interlock run claude review this", 'interlock run goose "and the tests" --continue',
             'interlock run claude "what is wrong here?" --image shot.png',
             'interlock run claude "how would you do it?" --mode plan')),
    CliVerb("chat", "tasks.chat:chat", "Chat with an agent, line by line.",
            ("interlock chat claude", "interlock chat --session main", 'echo "what is new?" | interlock chat claude')),
    CliVerb("attach", "tasks.attach:attach", "Follow a task again, from where this terminal left off.",
            ("interlock attach", "interlock attach cmd_01K9 --from-start")),
    CliVerb("approve", "approvals.decide:approve", "Grant pending approvals.",
            ("interlock approve @last", 'interlock approve apr_01K9 --comment "checked"',
             "interlock approve @last --always session", "interlock approve apr_01K9 --yes")),
    CliVerb("deny", "approvals.decide:deny", "Deny pending approvals.",
            ('interlock deny @last --reason "not on this host"',)),
    CliVerb("withdraw", "approvals.decide:withdraw", "Withdraw your vote, until the approval is decided.",
            ("interlock withdraw @last",)),
    CliVerb("answer", "approvals.decide:answer", "Answer an agent's question.",
            ('interlock answer @last "the left one"', "interlock answer apr_01K9 --none")),
    CliVerb("pause", "operations.pause_verbs:pause", "Pause a running task.",
            ("interlock pause", "interlock pause cmd_01K9")),
    CliVerb("resume", "operations.pause_verbs:resume", "Resume a paused task.", ("interlock resume @last",)),
    CliVerb("cancel", "approvals.decide:cancel", "Cancel tasks.", ("interlock cancel @last",)),
    CliVerb("status", "operations.gateway_status:status",
            "Show pending approvals, running tasks, the gateway and the runners.",
            ("interlock status", "interlock status --json")),
    CliVerb("doctor", "operations.doctor:doctor", "Check installation, config and connections.", ("interlock doctor",)),
)
THING_VERBS: tuple[CliVerb, ...] = (
    CliVerb("tasks", "tasks.lists:tasks", "List tasks, or show one.",
            ("interlock tasks", "interlock tasks --only running", "interlock tasks @last --json")),
    CliVerb("approvals", "tasks.lists:approvals", "List pending approvals, or show one approval.",
            ("interlock approvals", "interlock approvals @last", "interlock approvals --all",
             "interlock approvals @last --bytes | sha256sum")),
    CliVerb("changes", "sessions.staged_changes:changes", "List an agent's staged changes that have not landed.",
            ("interlock changes", "interlock changes 3f2a --diff")),
    CliVerb("diff", "sessions.git_changes:diff", "Show the changes in a session's workspace, according to git.",
            ("interlock diff", "interlock diff 3f2a --stat")),
    CliVerb("land", "sessions.staged_changes:land", "Land staged changes, all or the named files.",
            ("interlock land @last", "interlock land 3f2a src/main.py docs")),
    CliVerb("discard", "sessions.staged_changes:discard", "Discard staged changes, all or the named files.",
            ("interlock discard @last --yes", "interlock discard 3f2a notes.txt")),
    CliVerb("budgets", "policy.budgets_verb:budgets", "List budgets, and their use today.",
            ("interlock budgets", "interlock budgets --json")),
    CliVerb("usage", "operations.usage_verb:report", "List the usage that agents reported, by day in UTC.",
            ("interlock usage --by day,agent", "interlock usage --by person --from 2026-11-01 --csv")),
)
SETUP_VERBS: tuple[CliVerb, ...] = (
    CliVerb("logs", "operations.logs:logs", "Show the last lines of the logs of `interlock up`.",
            ("interlock logs", "interlock logs gateway --follow")),
    CliVerb("demo", "demo_verb:demo", "Demonstrate Interlock in a temporary directory.",
            ("interlock demo", "interlock demo --json")),
    CliVerb("conformance", "conformance_verb:conformance",
            "Show which requirements hold, or check another implementation of the link.",
            ("interlock conformance", "interlock conformance --json",
             "interlock conformance --master ws://127.0.0.1:7420/rawp --token-file token --key-file owner.key",
             "interlock conformance --runner --port 7421 --agent shell")),
    CliVerb("migrate", "storage.migrate:migrate", "Move the ledger and transcripts into PostgreSQL, or back.",
            ("interlock migrate --to postgresql://me@db/interlock",
             "interlock migrate --from postgresql://me@db/interlock",
             "interlock migrate --tenant acme --to postgresql://me@db-b/interlock --to-state ./b --at https://b.example",
             )),
    CliVerb("backup", "storage.backup:backup", "Copy a state directory into one file while its gateway runs.",
            ("interlock backup ~/interlock.tar.gz",)),
    CliVerb("restore", "storage.backup:restore", "Put a backup into an empty state directory.",
            ("interlock restore ~/interlock.tar.gz --state ./restored",
             "interlock restore ~/interlock.tar.gz --check")),
    CliVerb("prune", "storage.prune:prune", "Delete frames, events and files of sessions that ended long ago.",
            ("interlock prune --dry-run", "interlock prune --older-than 8w")),
    CliVerb("whoami", "access.keys:whoami", "Show whose key this is, and what it allows.",
            ("interlock whoami",)),
    CliVerb("login", "access.login:login", "Log in to another gateway, and use it from now on.",
            ("interlock login https://gate.example.org", "interlock login https://gate.example.org --on work --key",
             "interlock login https://gate.example.org --code 7H2K-9QX0-WDAB-CDEF")),
    CliVerb("logout", "access.login:logout", "Log out of a gateway.",
            ("interlock logout", "interlock logout work")),
    CliVerb("drain", "operations.pause_verbs:drain", "Let running turns finish, and start nothing new.",
            ("interlock drain", "interlock drain runner local --reason \"kernel update\"")),
    CliVerb("undrain", "operations.pause_verbs:undrain", "End a drain, and start what is queued.",
            ("interlock undrain", "interlock undrain runner local")),
    CliVerb("gateway", "host.processes:gateway", "Run a gateway without a runner.", ("interlock gateway",)),
    CliVerb("cluster-keys", "host.cluster_keys:cluster_keys", "Create the keys that a cluster's gateways share.",
            ("interlock cluster-keys ./keys",)),
    CliVerb("acp", "host.acp:acp", "Serve an editor over ACP, on standard input and output.",
            ("interlock acp claude", "interlock acp --runner build-1 codex --on-exit cancel")),
    CliVerb("ci", "tasks.ci:ci", "Run a prompt in a CI pipeline; approvals are answered elsewhere.",
            ('interlock ci claude "review this change" --approval-timeout 30m',
             "interlock ci claude --prompt-file task.md --summary summary.md --proof proof.json")),
    CliVerb("mcp", "host.mcp:mcp", "Serve tools for commanding agents over MCP.",
            ("interlock mcp", "interlock mcp --url https://gate.example")),
    CliVerb("telegram", "host.chat_bridges:telegram", "Connect a Telegram bot to the gateway.",
            ("interlock telegram",)),
    CliVerb("slack", "host.chat_bridges:slack", "Connect a Slack app to the gateway.",
            ("interlock slack",)),
)
AUDIT_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "audit.audit_list:records", "List records of the audit log, newest first.",
            ("interlock audit list --since 2h", "interlock audit list --on tuesday --action approve",
             "interlock audit list --who ann --action vote --json")),
    CliVerb("show", "audit.audit_list:show", "Show one record of the audit log.",
            ("interlock audit show 17",)),
    CliVerb("export", "audit.audit_verbs:export", "Write the audit log with its checkpoint.",
            ("interlock audit export audit.ndjson",)),
    CliVerb("verify", "audit.audit_verbs:verify", "Check an audit log offline.",
            ("interlock audit verify", "interlock audit verify audit.ndjson --key gateway.pub",
             "interlock audit verify audit.ndjson --key gateway.pub --checkpoint kept.checkpoint",
             "interlock audit verify --proof proof.json --key gateway.pub")),
    CliVerb("erase", "audit.audit_verbs:erase", "Erase personal data; the log itself stays complete.",
            ("interlock audit erase --who user:ann", "interlock audit erase 17 18 --yes")),
    CliVerb("resume", "audit.audit_resume:resume",
            "Resume signing after a restore, once you accept the log as it is.",
            ("interlock audit resume", "interlock audit resume --accept 9:ROOT --reason 'restored from a copy'")),
    CliVerb("witness", "audit.witness_verb:witness", "Watch a gateway's log from outside, and cosign it.",
            ("interlock audit witness ~/witness --url https://gate.example.org --key gateway.pub",)),
)
CONFIG_VERBS: tuple[CliVerb, ...] = (
    CliVerb("check", "config.config_verbs:check", "Check the config file.", ("interlock config check",)),
    CliVerb("show", "config.config_verbs:show", "Show the settings in force.", ("interlock config show",)),
    CliVerb("reload", "config.config_reload:reload", "Make gateway and runner reload the config.",
            ("interlock config reload",)),
    CliVerb("import", "config.config_import:import_", "Import sessions, bindings, hooks and jobs from OpenClaw.",
            ("interlock config import ~/.openclaw/openclaw.json",)),
    CliVerb("path", "config.config_verbs:path", "Print the path of the config file.",
            ("interlock config path",)),
)

RUNNER = CliVerb("runner", "groups:runner", "Run a runner without a gateway, or pair and install it.",
                 ("interlock runner", "interlock runner --url http://127.0.0.1:7420"))
RUNNER_VERBS: tuple[CliVerb, ...] = (
    CliVerb("pair", "host.runner_pair:pair", "Pair this host's runner with a gateway, by a one-time code.",
            ("interlock runner pair K7Q2M-9XF4T --url https://gate.example.org",)),
    CliVerb("unpair", "host.runner_take:unpair", "Remove a pairing of this host's runner with a gateway.",
            ("interlock runner unpair https://gate.example.org",)),
    CliVerb("take", "host.runner_take:take", "Move control of a session of this host's runner to another gateway.",
            ("interlock runner take SESSION --to GATEWAY_ID",)),
    CliVerb("install", "host.install:install", "Install the paired runner as a service (systemd, launchd).",
            ("interlock runner install --root ~/work", "interlock runner install --print --for systemd")),
)
SERVICE = CliVerb("service", "groups:service", "List the services of this host; install or remove one.",
                  ("interlock service", "interlock service install up --root ~/work"))
SERVICE_VERBS: tuple[CliVerb, ...] = (
    CliVerb("install", "host.install:service_install",
            "Install `interlock up`, a gateway or a paired runner as a service.",
            ("interlock service install up --root ~/work", "interlock service install gateway",
             "interlock service install up --print --for systemd")),
    CliVerb("remove", "host.install:service_remove", "Remove the service: this host no longer starts it.",
            ("interlock service remove up",)),
)
SESSIONS = CliVerb("sessions", "groups:sessions", "List sessions, or show one and its transcript.",
                   ("interlock sessions", "interlock sessions show @last"))
SESSIONS_VERBS: tuple[CliVerb, ...] = (
    CliVerb("reset", "sessions.session_lives:reset",
            "End a session's work, and start a new session under its key.",
            ("interlock sessions reset agent:claude:main",)),
    CliVerb("set", "sessions.session_lives:set_", "Set a session's model, thinking level or label.",
            ("interlock sessions set @last model=opus thinking=high", "interlock sessions set @last label=")),
    CliVerb("rename", "sessions.session_lives:rename", "Set a session's title.",
            ('interlock sessions rename @last "release 2.1"', 'interlock sessions rename 3f2a ""')),
    CliVerb("edit", "sessions.session_edit:edit", "Edit the settings of an agent's sessions in your editor.",
            ("interlock sessions edit", "interlock sessions edit claude")),
    CliVerb("history", "sessions.session_lives:history", "List the sessions that a key has had.",
            ("interlock sessions history agent:claude:main",)),
    CliVerb("archive", "sessions.session_lives:archive", "End a session's work and archive it.",
            ("interlock sessions archive @last",)),
    CliVerb("restore", "sessions.session_lives:restore", "Restore an archived session.",
            ("interlock sessions restore 3f2a",)),
    CliVerb("compact", "sessions.session_compact:compact", "Compact a session's context.",
            ("interlock sessions compact agent:claude:main",
             'interlock sessions compact 3f2a "keep the open questions"')),
    CliVerb("release", "sessions.session_release:release", "Move control of a session to another gateway.",
            ("interlock sessions release @last --to GATEWAY_ID",)),
    CliVerb("files", "sessions.session_files:files", "List the files that were sent in a session.",
            ("interlock sessions files @last",)),
    CliVerb("save", "sessions.session_files:save", "Save a file of a session.",
            ("interlock sessions save @last 4f6a", "interlock sessions save @last 4f6a --output plot.png")),
    CliVerb("show", "sessions.transcripts:show", "Show a session's transcript, from the root to the leaf.",
            ("interlock sessions show @last", "interlock sessions show old.jsonl")),
    CliVerb("tail", "sessions.transcripts:tail", "Show the last entries of a transcript.",
            ("interlock sessions tail @last -n 5",)),
    CliVerb("tree", "sessions.transcripts:tree", "Show a transcript's branches and labels.",
            ("interlock sessions tree @last", "interlock sessions tree old.jsonl --all")),
    CliVerb("export", "sessions.transcripts:export", "Write a transcript to a file: JSONL, Markdown or HTML.",
            ("interlock sessions export @last session.jsonl", "interlock sessions export @last session.md")),
    CliVerb("import", "sessions.transcript_changes:import_", "Start a session with a transcript from elsewhere.",
            ("interlock sessions import session.jsonl --agent shell",)),
    CliVerb("doctor", "sessions.transcripts:doctor", "Check a transcript for damage, and repair it.",
            ("interlock sessions doctor @last", "interlock sessions doctor old.jsonl",
             "interlock sessions doctor old.jsonl --repair --output mended.jsonl")),
    CliVerb("fork", "sessions.transcript_changes:fork", "Start a session with a copy of the path to an entry.",
            ("interlock sessions fork @last", "interlock sessions fork @last --at 1a2b3c4d")),
    CliVerb("label", "sessions.transcript_changes:label", "Label an entry, or remove its label.",
            ('interlock sessions label @last 1a2b3c4d "before the rewrite"',
             "interlock sessions label @last 1a2b3c4d --none")),
    CliVerb("branch", "sessions.transcript_changes:branch", "Continue from an earlier entry of a transcript.",
            ("interlock sessions branch @last 1a2b3c4d",
             'interlock sessions branch @last 1a2b3c4d --summary "tried caching; too slow"')),
)
AGENTS = CliVerb("agents", "groups:agents", "List, check and set up agents.",
                 ("interlock agents", "interlock agents check goose"))
AGENTS_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "agents.agents:agents", "List agents, and those on PATH with how to set them up.",
            ("interlock agents list --json",)),
    CliVerb("check", "agents.agent_check:check", "Test whether an agent asks before its tools.",
            ("interlock agents check goose", "interlock agents check opencode --json")),
    CliVerb("add", "agents.agent_check:add", "Set up an agent that is on PATH, and check it.",
            ("interlock agents add goose", "interlock agents add opencode --yes")),
)
RUNNERS = CliVerb("runners", "groups:runners", "List runners; create a pairing code, rotate or revoke a token.",
                  ("interlock runners", "interlock runners code"))
RUNNERS_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "operations.runners:runners", "List all runners that were ever paired.",
            ("interlock runners list --json",)),
    CliVerb("code", "operations.runners:code", "Create a one-time code that pairs a runner.",
            ("interlock runners code",)),
    CliVerb("rotate", "operations.runners:rotate", "Replace a runner's token; the old one is refused at once.",
            ("interlock runners rotate rnr_01K9",)),
    CliVerb("revoke", "operations.runners:revoke", "Revoke a runner's token, and close its link.",
            ("interlock runners revoke rnr_01K9",)),
)

CONSOLE = CliVerb("console", "groups:console", "Open the console in a browser, logged in.",
                  ("interlock console", "interlock console --no-open", "interlock console --role approver --qr"))
CONSOLE_VERBS: tuple[CliVerb, ...] = (
    CliVerb("sessions", "access.console:sessions", "List open browser sessions.",
            ("interlock console sessions",)),
    CliVerb("end", "access.console:end", "End a browser session at once.", ("interlock console end brs_01K9",)),
)
POLICY = CliVerb("policy", "groups:policy", "Show, test and replay the rules; list the remembered ones.",
                 ("interlock policy", 'interlock policy test goose "git push"'))
POLICY_VERBS: tuple[CliVerb, ...] = (
    CliVerb("show", "policy.policy_verbs:show", "Show the rules in force, in order.",
            ("interlock policy show",)),
    CliVerb("test", "policy.policy_verbs:try_", "Show which rule decides a call; nothing is run.",
            ('interlock policy test goose "git push" --tool shell',
             "interlock policy test claude --tool Write --path a")),
    CliVerb("explain", "policy.policy_verbs:explain", "Show which rule decides an approval's call now.",
            ("interlock policy explain @last",)),
    CliVerb("replay", "policy.policy_verbs:replay", "Try rules on the tool calls of recorded sessions.",
            ("interlock policy replay --changed", "interlock policy replay --file new.toml")),
    CliVerb("use", "policy.policy_verbs:use", "Use ready-made rules: readonly, edits, ci, boxed.",
            ("interlock policy use readonly", "interlock policy use edits ci")),
    CliVerb("rules", "policy.policy_verbs:rules", "List the rules that people created with always or never.",
            ("interlock policy rules",)),
    CliVerb("forget", "policy.policy_verbs:forget", "Revoke a remembered rule.",
            ("interlock policy forget rul_01K9",)),
)
TRUST = CliVerb("trust", "groups:trust",
                "List workspaces whose files may configure an agent; revoke one.",
                ("interlock trust", "interlock trust forget ~/src/demo"))
TRUST_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "policy.trusted_workspaces:trusted",
            "List the workspaces whose files may configure an agent.",
            ("interlock trust list --json",)),
    CliVerb("forget", "policy.trusted_workspaces:forget",
            "Revoke a workspace's trust; its next start is asked about again.",
            ("interlock trust forget rul_01K9", "interlock trust forget ~/src/demo")),
)
WEBHOOKS = CliVerb("webhooks", "groups:webhooks",
                   "List webhooks to approvers; test one; retry dead deliveries.",
                   ("interlock webhooks", "interlock webhooks test ops"))
WEBHOOK_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "operations.webhooks:webhooks", "List the webhooks of the config.",
            ("interlock webhooks list",)),
    CliVerb("secret", "operations.webhooks:secret", "Create a secret for a webhook.",
            ("interlock webhooks secret > ops.secret",)),
    CliVerb("test", "operations.webhooks:try_", "Send a test message.",
            ("interlock webhooks test ops",)),
    CliVerb("dead", "operations.webhooks:dead", "List dead deliveries.",
            ("interlock webhooks dead --json",)),
    CliVerb("retry", "operations.webhooks:retry", "Retry a dead delivery.",
            ("interlock webhooks retry @last",)),
)
CRON = CliVerb("cron", "groups:cron", "List cron jobs, or run one now.",
               ("interlock cron", "interlock cron run report"))
CRON_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "operations.cron_verbs:jobs", "List cron jobs, and when they are due.",
            ("interlock cron list --json",)),
    CliVerb("run", "operations.cron_verbs:run", "Run a job now.", ("interlock cron run report",)),
)
SIGNING = CliVerb("signing-keys", "groups:signing_keys", "List keys that sign votes; create or revoke one.",
                  ("interlock signing-keys", "interlock signing-keys create"))
SIGNING_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "access.signing_keys:signing_keys", "List the keys that sign votes.",
            ("interlock signing-keys list",)),
    CliVerb("create", "access.signing_keys:create", "Create a signing key here, and register it as yours.",
            ("interlock signing-keys create --label laptop",)),
    CliVerb("revoke", "access.signing_keys:revoke", "Revoke a signing key.",
            ("interlock signing-keys revoke sgk_0a1b",)),
)
KEYS = CliVerb("keys", "groups:keys", "List API keys; create, rotate or revoke one.",
               ("interlock keys", "interlock keys create ann --role operator --role approver"))
KEYS_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "access.keys:keys", "List the keys of a tenant.", ("interlock keys list --json",)),
    CliVerb("create", "access.keys:create", "Create an API key, and show it once.",
            ("interlock keys create ann --role operator --role approver --label laptop",
             "interlock keys create nightly --agent --role operator --expires 90d",
             "interlock keys create bob --role admin --tenant acme")),
    CliVerb("rotate", "access.keys:rotate", "Replace a key's secret; the old one is refused at once.",
            ("interlock keys rotate key_01K9",)),
    CliVerb("revoke", "access.keys:revoke", "Revoke an API key.", ("interlock keys revoke key_01K9",)),
)
TENANTS = CliVerb("tenants", "groups:tenants", "List tenants; create, suspend or restore one.",
                  ("interlock tenants", "interlock tenants create acme"))
TENANTS_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "access.tenants:tenants", "List tenants.", ("interlock tenants list --json",)),
    CliVerb("create", "access.tenants:create", "Create a tenant.",
            ('interlock tenants create acme --name "Acme Ltd"',)),
    CliVerb("suspend", "access.tenants:suspend", "Suspend a tenant: all its credentials are refused.",
            ("interlock tenants suspend acme",)),
    CliVerb("restore", "access.tenants:restore", "End a tenant's suspension.",
            ("interlock tenants restore acme",)),
)
CONTEXTS = CliVerb("contexts", "groups:contexts", "List gateways that you logged in to; use one.",
                   ("interlock contexts", "interlock contexts use work"))
CONTEXTS_VERBS: tuple[CliVerb, ...] = (
    CliVerb("list", "access.context_verbs:listing", "List the gateways that you logged in to.",
            ("interlock contexts list --json",)),
    CliVerb("use", "access.context_verbs:use", "Use another gateway from now on.",
            ("interlock contexts use work", "interlock contexts use work --directory /home/ann/project",
             "interlock contexts use local")),
    CliVerb("remove", "access.context_verbs:remove", "Remove a gateway and its credential from the list.",
            ("interlock contexts remove work",)),
)
GROUPED: tuple[tuple[CliVerb, tuple[CliVerb, ...], str], ...] = (
    (CONSOLE, CONSOLE_VERBS, DAILY),
    (AGENTS, AGENTS_VERBS, THINGS), (SESSIONS, SESSIONS_VERBS, THINGS), (RUNNERS, RUNNERS_VERBS, THINGS),
    (POLICY, POLICY_VERBS, THINGS), (TRUST, TRUST_VERBS, THINGS),
    (CRON, CRON_VERBS, THINGS),
    (SIGNING, SIGNING_VERBS, THINGS), (WEBHOOKS, WEBHOOK_VERBS, THINGS),
    (RUNNER, RUNNER_VERBS, SETUP), (SERVICE, SERVICE_VERBS, SETUP),
    (CONTEXTS, CONTEXTS_VERBS, SETUP), (KEYS, KEYS_VERBS, SETUP), (TENANTS, TENANTS_VERBS, SETUP),
)
"""Verbs that do something by themselves and have verbs below them, and the heading of the help that lists them."""

COMPLETION_VERBS: tuple[CliVerb, ...] = tuple(
    CliVerb(shell, f"completion:{shell}", f"Complete in {shell}.",
            (f"interlock completion {shell} --install", f"interlock completion {shell} --print"))
    for shell in ("bash", "zsh", "fish")
)

PARTS: tuple[tuple[str, tuple[CliVerb, ...], str], ...] = (
    ("audit", AUDIT_VERBS, "List, export, verify or witness the audit log."),
    ("config", CONFIG_VERBS, "Check or show the config file."),
    ("completion", COMPLETION_VERBS, "Complete verbs, options and ids in your shell."),
)
"""Names that only have verbs below them."""

ABOUT = "Run coding agents on your own machines under command, approval and audit."
FIRST = ("interlock demo", "interlock up", 'interlock run shell "ls -l"', "interlock approvals")
EXITS = """Exit status: 0 done, 1 failed, 2 usage, 3 rejected, 4 canceled, 5 timed out, 6 no gateway, 7 not found, \
8 not authorised, 9 conflict, 130 interrupted (the work continues)."""


def build() -> App:
    """Create the command line without importing any verb."""
    from cyclopts import App, Group, Parameter

    groups = {heading: Group(heading, sort_key=order) for order, heading in enumerate((DAILY, THINGS, SETUP))}
    app = App(
        name="interlock", version=f"interlock {__version__}", help_format="plaintext",
        help=ABOUT,
        help_prologue=examples(FIRST), help_epilogue=EXITS,
        default_parameter=Parameter(negative=(), show_default=False),
        result_action="return_value", exit_on_error=False, print_error=False,
    )
    add(app, DAILY_VERBS, groups[DAILY])
    add(app, THING_VERBS, groups[THINGS])
    add(app, SETUP_VERBS, groups[SETUP])
    for verb, _, heading in GROUPED:
        # Each is an app with its own help.
        app.command(verb.target, name=verb.name, help=verb.line, group=groups[heading], sort_key=len(SETUP_VERBS))
    for name, verbs, line in PARTS:
        part = App(name=name, help=line, group=groups[SETUP], help_epilogue="",
                   help_prologue=examples(tuple(verb.examples[0] for verb in verbs)))
        add(part, verbs, None)
        app.command(part)
    app["--help"].group = app["--version"].group = groups[SETUP]
    return app


def listed() -> Iterator[tuple[str, list[CliVerb]]]:
    """Yield the headings of the help, each with the verbs below it in their order."""
    for heading, verbs in ((DAILY, DAILY_VERBS), (THINGS, THING_VERBS), (SETUP, SETUP_VERBS)):
        grouped = sorted((verb for verb, _, under in GROUPED if under == heading), key=lambda verb: verb.name)
        parts = sorted((CliVerb(name, "", line) for name, _, line in PARTS if heading == SETUP),
                       key=lambda verb: verb.name)
        yield heading, [verb for verb in (*verbs, *grouped, *parts) if verb.shown]


def names() -> list[str]:
    """Return the verbs of the first level."""
    grouped = (itself for itself, _, _ in GROUPED)
    return [*(verb.name for verb in (*DAILY_VERBS, *THING_VERBS, *SETUP_VERBS, *grouped)),
            *(name for name, _, _ in PARTS)]


def below(name: str) -> list[str]:
    """Return the verbs below one of the first level."""
    parts = {**{name: verbs for name, verbs, _ in PARTS}, **{itself.name: verbs for itself, verbs, _ in GROUPED}}
    return [verb.name for verb in parts.get(name, ())]


def add(app: App, verbs: tuple[CliVerb, ...], group: Group | None) -> None:
    """Register these verbs with an app; each is imported when it is used."""
    for order, verb in enumerate(verbs):
        more: dict[str, Any] = {"group": group} if group is not None else {}
        app.command(verb.target, name=verb.name, help=verb.line, help_prologue=examples(verb.examples),
                    help_epilogue="", sort_key=order, **more)


def examples(lines: tuple[str, ...]) -> str:
    """Write the examples that a help begins with."""
    return "Examples:\n" + "\n".join(f"  {line}" for line in lines)
