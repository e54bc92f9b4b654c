"""Every command of every how-to page, typed as printed, in order, on a terminal; commands that cannot run here have a
reason (Y-16).

Names that differ from reader to reader (addresses, keys, ids) are replaced by this reader's own. Agents are the builtin
one under other names, behind the model stand-in; the real ones have tests of their own.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from end_to_end.page_reader import HOW_TO, PATIENCE_S, PageRun, PageSetup, entry_of, page_commands, run_page
from end_to_end.receiver import receiving
from interlock.model_stand_in import running_model_server
from proof import REPOSITORY
from proof.processes.fork_server import ForkServer

pytestmark = [pytest.mark.long, pytest.mark.req("Y-16", "G-7")]

OWN_TESTS = {"backup": "test_pages.py", "builtin-agent": "test_builtin_page.py"}
INSTALLS = "it installs packages, as .ci/run does"
POSTGRESQL = "it needs a PostgreSQL of one's own; tests/app/data_migration moves by the same verb"
ON_GITHUB = "it asks GitHub about a release"
CONSOLE = "it needs the console, which is built with node: tests/console"
TOKEN = "it waits for the token of a bot of one's own"
STAGED = "it needs an agent whose changes are staged: tests/end_to_end/test_staged_changes.py"
SHOWN_ID = "apr_01M7YTES3RF9XD4GP69BSVFR9K"
SHOWN_DIGEST = "827b867e0b5a01dcb19514626d1a3146bf8258df041fe9ad35506a84e1dc0bc5"
Step = Callable[[PageSetup], Any]


def until(found: Callable[[], list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the first row that a list has in time."""
    deadline = time.monotonic() + PATIENCE_S
    while not (rows := found()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)
    return rows[0]


def ask(stack: PageSetup, line: str) -> dict[str, Any]:
    """Have the shell agent ask whether it may run a line; its approval is the one that pages name."""
    stack.do(f"interlock run shell '{line}' --detach")
    asked = until(lambda: [one for one in stack.rows("interlock approvals") if line in str(one)])
    stack.replaced |= {SHOWN_ID: asked["id"], SHOWN_DIGEST: asked["digest"]}
    return asked


def waits(line: str) -> Step:
    """Have one approval wait, and be shown on this terminal."""
    return in_order(lambda stack: ask(stack, line), done("interlock approvals"))


def replace_id(printed: str, command: str, field: str = "id", row: int = 0) -> Step:
    """Replace an id of the page by that of a row of a list."""
    def prepare(stack: PageSetup) -> None:
        stack.replaced[printed] = str(stack.rows(command)[row][field])
    return prepare


def done(*commands: str) -> Step:
    """Run commands that the page takes for granted."""
    return lambda stack: [stack.do(stack.as_typed(command)) for command in commands]


def written(path: str, text: str = "text\n") -> Step:
    """Have a file in the workspace."""
    return lambda stack: (stack.work / path).write_text(text)


def config_of(page: str, *numbers: int) -> Step:
    """Take these TOML blocks of a page into the config."""
    blocks = re.findall(r"^```toml\n(.*?)^```$", (HOW_TO / f"{page}.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)

    def prepare(stack: PageSetup) -> None:
        stack.config += "".join(stack.as_typed(blocks[number]) + "\n" for number in numbers)
    return prepare


def in_order(*steps: Step) -> Step:
    """Do several."""
    return lambda stack: [step(stack) for step in steps]


def lines(count: int) -> Step:
    """Run this many tasks of the shell agent, so that the log has records."""
    return lambda stack: [stack.do(f"interlock run shell 'echo {number}' --yes") for number in range(count)]


REPOSITORY_THERE = done("git init -q", "git commit -q --allow-empty -m first")
KEY_HERE = done("cp $INTERLOCK_STATE/gateway.pub .")
CODE = re.compile(r"[A-Z0-9]{5}-[A-Z0-9]{5}")


def with_code(printed: str) -> Step:
    """Have a pairing code."""
    def prepare(stack: PageSetup) -> None:
        stack.replaced[printed] = CODE.findall(stack.do("interlock runners code"))[0]
        (stack.state / "runner/token").unlink(missing_ok=True)
    return prepare


def login_code(stack: PageSetup) -> None:
    """Have a one-time code for a login."""
    made = httpx2.post(f"{stack.url}/v1/browser-codes", json={}, headers={
        "Authorization": f"Bearer {stack.key}", "Idempotency-Key": secrets.token_hex(16)})
    stack.replaced["7H2K-9QX0-WDAB-CDEF"] = made.raise_for_status().json()["code"]


def receiver_of(section: str, url: str) -> Step:
    """Replace a receiver of the page by one on this host."""
    def prepare(stack: PageSetup) -> None:
        stack.replaced[url] = stack.receiver.url + "topic"
        stack.config += '[outgoing]\nallow = ["127.0.0.1/32"]\n\n'
    return prepare


def dead_letter(stack: PageSetup) -> None:
    """Have a message be refused for good."""
    stack.receiver.status = 410
    ask(stack, "echo unheard")
    until(lambda: stack.rows("interlock webhooks dead"))
    stack.receiver.status = 200


def first_entry(stack: PageSetup) -> None:
    """Replace an entry id of the page by that of the first entry of the transcript."""
    stack.replaced["1a2b3c4d"] = json.loads((stack.work / "old.jsonl").read_text("utf-8").splitlines()[1])["id"]


def forget_rules(stack: PageSetup) -> None:
    """Have none of the rules that people left behind count."""
    for rule in stack.rows("interlock policy rules"):
        stack.do(f"interlock policy forget {rule['id']}")


PAGES: dict[str, PageRun] = {
    "agents": PageRun(
        before={
            "interlock up --root": done("mkdir -p ~/work ~/notes"),
        },
        not_here={
            **{f"interlock {verb}": "it needs an agent that takes and sends files: tests/runner/session/test_uploads.py"
               for verb in ('run claude "what is wrong', "sessions files", "sessions save")},
            "interlock agents add goose": "it needs goose itself: tests/cli/agents/test_agent_check.py",
            "interlock agents check goose": "it needs goose itself: tests/cli/agents/test_agent_check.py",
            "interlock up --root": "one runs here already: test_pages.py starts one as printed",
        }),
    "answer-elsewhere": PageRun(
        start=lambda stack: stack.stand_in("uuidgen", "cat /proc/sys/kernel/random/uuid"),
        before={
            "interlock approvals": lambda stack: ask(stack, "git push") if not stack.rows("interlock approvals")
            else None,
            "interlock deny @last --reason": waits("ls here"),
            f"interlock approve {SHOWN_ID} --yes": lambda stack: ask(stack, "ls there"),
            "interlock approve @last --always session": waits("echo one"),
            "interlock approve @last --always rule --width program": waits("git status"),
            'interlock approve @last --always rule --words "git log **"': waits("git log --oneline"),
            "interlock deny @last --always rule": waits("echo two"),
            'curl -s -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\\n-H "Idempotency-Key: vote':
                in_order(forget_rules, lambda stack: ask(stack, "uname")),
            'curl -sN -H "Authorization: Bearer $KEY" -H "Accept: text/event-stream" $URL/v1/commands/CMD':
                replace_id("CMD", "interlock tasks --only succeeded"),
        },
        until={'curl -sN -H "Authorization: Bearer $KEY" -H "Accept: text/event-stream" $URL/v1/events': "event:"}),
    "box-an-agent": PageRun(
        before={'interlock run opencode "rename the flag" --worktree  ': REPOSITORY_THERE,
                "interlock diff  ": done("interlock run opencode hello")},
        not_here={f"interlock {verb}": STAGED for verb in ("changes", "land", "discard")}),
    "budgets": PageRun(before={"interlock approvals": waits("echo one")}),
    "check-an-implementation": PageRun(not_here={
        "interlock conformance": "it speaks with an implementation that is to be checked: tests/conformance",
        "python -m proof seeds": "it takes minutes: tests/proof/independent_peers/test_clauses.py"}),
    "ci": PageRun(
        before={
            "interlock ci claude --prompt-file": in_order(REPOSITORY_THERE, written("task.md")),
            "git diff": in_order(written("new.txt"), done("git add new.txt")),
            "interlock audit verify --proof": KEY_HERE,
        },
        prints={"interlock audit verify --proof": "are in the signed log"}),
    "compaction": PageRun(
        before={"interlock sessions compact": done(
            *["yes words | head -c 100000 | interlock run builtin hello --session agent:builtin:main"] * 2)},
        not_here={"pip": INSTALLS}),
    "console": PageRun(
        before={"openssl": KEY_HERE},
        not_here={"interlock console": CONSOLE,
                  "python -m tests.console.pictures": "it needs a browser: tests/console"}),
    "documentation-site": PageRun(not_here={
        "pip": INSTALLS,
        "python docs/site.py": "tests/docs/test_site.py builds the site",
        "python -m http.server": "it serves what the commands before it build"}),
    "editors": PageRun(not_here={
        "interlock acp claude": "it speaks with an editor: tests/end_to_end/test_acp_door.py"}),
    "erase-personal-data": PageRun(
        before={
            "interlock audit erase --who": in_order(
                lines(5), done("interlock keys create ann --role operator > ann.key"),
                done("INTERLOCK_KEY=$(grep -o 'ilk_[A-Za-z0-9_-]*' ann.key | head -1) interlock run shell 'echo hers' "
                     "--detach"))},
        prints={"interlock audit erase": "erased"}),
    "keys": PageRun(
        before={
            "interlock keys rotate": replace_id("key_01K9", "interlock keys", "key_id", -1),
            "interlock signing-keys list": done("interlock signing-keys create"),
            "interlock signing-keys revoke": replace_id("sgk_3f2a", "interlock signing-keys", "key_id"),
        },
        not_here={"interlock console": CONSOLE}),
    "lock-checkpoints": PageRun(
        before={"interlock audit verify": done("tail -1 audit.ndjson > newest.checkpoint")},
        not_here={"pip": INSTALLS, "aws s3 cp": "it needs a bucket: tests/backends/checkpoints has a stand-in of one"}),
    "log-in": PageRun(
        before={
            "interlock status": in_order(login_code, done(
                "interlock login https://gate.example.org --on work --code 7H2K-9QX0-WDAB-CDEF")),
            "interlock login https://gate.example.org --code": login_code,
            "interlock login https://gate.example.org --key": done("echo $INTERLOCK_KEY > key.txt"),
            "interlock run claude \"what failed tonight?\"": in_order(login_code, done(
                "interlock login https://gate.example.org --on box --code 7H2K-9QX0-WDAB-CDEF")),
        },
        not_here={"interlock login https://gate.example.org --on work":
                  "a person logs in at an issuer: tests/cli/access/test_login.py has one"}),
    "mcp": PageRun(not_here={"claude mcp add": "it needs Claude Code itself"}),
    "move-to-postgresql": PageRun(
        before={"interlock tenants suspend": done("interlock tenants create acme")},
        not_here={"pip": INSTALLS, "createdb": POSTGRESQL, "interlock migrate": POSTGRESQL}),
    "notifications": PageRun(
        start=in_order(receiver_of("webhooks", "https://hooks.example.org/interlock"), config_of("notifications", 0),
                       done("interlock webhooks secret > $INTERLOCK_STATE/ops.secret")),
        before={"interlock webhooks dead": dead_letter}),
    "ntfy": PageRun(start=in_order(
        receiver_of("ntfy", "https://ntfy.sh/interlock-7f3ae1b9c2"), done("echo token > $INTERLOCK_STATE/ntfy.token"),
        config_of("ntfy", 0))),
    "objects-in-a-bucket": PageRun(not_here={"pip": INSTALLS}),
    "pair-a-host": PageRun(
        before={
            "interlock runner pair": with_code("K7Q2M-9XF4T"),
            "interlock runner --root": done("mkdir -p ~/work"),
            "interlock runners": replace_id("rnr_01K9", "interlock runners", "runner_id", -1),
        },
        until={"interlock runner --root": "is attached to its gateway"},
        not_here={"interlock runner install": "it has systemd start a runner: tests/cli/host/test_install.py"}),
    "phone": PageRun(not_here={"interlock console": CONSOLE}),
    "policies": PageRun(
        before={"interlock policy explain": waits("echo one"),
                "interlock policy replay": written("new.toml", '[[policy.rules]]\nname = "all"\neffect = "ask"\n')}),
    "release": PageRun(not_here={"python packaging": "it writes for a repository that is named: tests/distribution",
                                 "gh ": ON_GITHUB}),
    "remote": PageRun(
        start=in_order(
            lambda stack: stack.stand_in("ssh", 'case $1 in -N) ;; *) shift; cd ~ && exec sh -c "$*" ;; esac')),
        before={"interlock run shell": done("mkdir -p ~/project")}),
    "remove": PageRun(not_here={
        "systemctl": "it ends a service of this host: tests/cli/host/test_install.py",
        "interlock service remove": "it ends a service of this host: tests/cli/host/test_install.py"}),
    "run-a-cluster": PageRun(not_here={
        "pip": INSTALLS, "interlock up --cluster 3": "three gateways: tests/cli/host/test_up_cluster.py starts them",
        "interlock migrate": POSTGRESQL, "interlock status": "it is a cluster's: tests/cli/host/test_up_cluster.py"}),
    "run-a-witness": PageRun(before={"interlock audit witness": in_order(KEY_HERE, lines(1))},
                             until={"interlock audit witness": "cosigned"}),
    "sessions": PageRun(
        start=in_order(config_of("sessions", 4), lambda stack: stack.environment.update({"VISUAL": "true"})),
        before={
            "interlock sessions set": done("interlock run claude hello --session agent:claude:main"),
            "interlock sessions archive": replace_id("3f2a", "interlock sessions", "session_id"),
            "interlock sessions rename": replace_id("2cd0", "interlock sessions", "session_id"),
            "interlock config import": done("mkdir -p ~/.openclaw", "echo '{}' > ~/.openclaw/openclaw.json"),
        },
        not_here={"interlock chat": "it is a conversation: tests/end_to_end/test_chat.py"}),
    "slack": PageRun(not_here={"pip": INSTALLS, "cat": TOKEN}),
    "telegram": PageRun(not_here={"pip": INSTALLS, "umask 077; cat": TOKEN}),
    "transcripts": PageRun(
        before={
            "interlock sessions show @last": done(
                "interlock run builtin hello", "interlock run builtin more --continue"),
            "interlock sessions show old": done("interlock sessions export @last old.jsonl"),
            "interlock sessions label": first_entry,
        }),
    "two-gateways": PageRun(
        before={"interlock runner pair K7Q2M-9XF4T": with_code("K7Q2M-9XF4T")},
        not_here={"interlock runner pair 4HXTR-0P2WD": "one gateway runs here: test_two_gateways.py has two",
                  "interlock runner ": "one gateway runs here: test_two_gateways.py has two"}),
    "untrusted-repository": PageRun(not_here={
        "interlock trust forget": "no directory was allowed: tests/cli/policy/test_trusted_workspaces.py allows one"}),
    "usage": PageRun(before={"interlock usage --by session": done("interlock run claude hello")}),
    "verify-elsewhere": PageRun(
        before={
            "interlock audit export": in_order(lines(1), KEY_HERE),
            "python interlock_audit_verify.py": lambda stack: shutil.copy(
                REPOSITORY / "verifier/interlock_audit_verify.py", stack.work),
            "tail -1 earlier": done("cp audit.ndjson earlier.ndjson"),
            "interlock audit verify --proof": done("interlock ci builtin hello --proof proof.json"),
        },
        status={"(head": 1, "head": 1, "sed": 1},
        prints={"(head": "the tail was cut", "head": "no checkpoint", "sed 3d": "Record 3 was removed"},
        not_here={"interlock audit verify padded": "5,000 records: tests/command/audit/test_audit_tail.py has them"}),
    "write-a-dps-agent": PageRun(not_here={
        "interlock run notes": "it needs node and the page's program: tests/end_to_end/test_dps_agents.py"}),
}
"""How each page is run; one that is not here is run without more."""


@pytest.mark.parametrize("path", sorted(path for path in HOW_TO.glob("*.md") if page_commands(path)),
                         ids=lambda path: path.stem)
def test_a_page_does_what_it_describes(path: Path, tmp_path: Path, fork_server: ForkServer) -> None:
    if path.stem in OWN_TESTS:
        assert path.name in (REPOSITORY / "tests/end_to_end" / OWN_TESTS[path.stem]).read_text("utf-8")
        return
    how = PAGES.get(path.stem, PageRun())
    with (running_model_server() as model, receiving() as receiver,
          PageSetup(tmp_path, model, receiver, fork_server) as stack):
        run_page(path, how, stack)


def test_each_omitted_command_is_on_its_page() -> None:
    for name, how in PAGES.items():
        typed = [command.text for command in page_commands(HOW_TO / f"{name}.md")]
        for begin in (*how.before, *how.until, *how.status, *how.prints, *how.not_here):
            assert any(text.startswith(begin) for text in typed), f"{name} has no {begin!r} any more"
        for reason in how.not_here.values():
            for named in re.findall(r"\b(?:tests/[\w/]+(?:\.py)?|test_\w+\.py)", reason):
                assert (REPOSITORY / named).exists() or (REPOSITORY / "tests/end_to_end" / named).exists(), named


def test_most_typed_commands_of_the_pages_are_run() -> None:
    """The share only rises."""
    every = [command for path in HOW_TO.glob("*.md") for command in page_commands(path)]
    left_out = [command for command in every
                if entry_of(PAGES.get(command.page, PageRun()).not_here, command.text) is not None]
    assert len(left_out) <= 0.3 * len(every)


def test_every_block_with_a_command_has_a_language() -> None:
    for path in HOW_TO.glob("*.md"):
        is_open = False
        rows = path.read_text("utf-8").splitlines()
        for row, after in zip(rows, [*rows[1:], ""], strict=True):
            if row.strip().startswith("```"):
                is_open = not is_open
                bare = is_open and row.strip() == "```"
                assert not (bare and re.match(r" *(interlock|pip|python|gh|curl) ", after)), f"{path.name}: {after}"
