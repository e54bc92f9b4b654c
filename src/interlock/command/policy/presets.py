"""Ready-made rules that a config includes by name: `[policy] use = ["readonly"]` (Y-4).

They are ordinary rules, tested by `python -m proof policy` against the same hostile commands. A file that may make an
agent or a tool run something is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from interlock.command.policy.coverage import SECRETS
from interlock.command.policy.rule import Rule
from interlock.protocol.box import CLOSED

Preset = Literal["readonly", "edits", "ci", "boxed"]

STARTS = [
    ".git/**", ".github/**", ".gitlab-ci.yml", ".gitmodules", ".gitattributes", ".claude/**", ".mcp.json",
    ".codex/**", ".gemini/**", ".qwen/**", ".opencode/**", "opencode.json*", ".vscode/**", ".idea/**", ".husky/**",
    ".devcontainer/**", ".envrc", ".pre-commit-config.yaml", ".ci/**", "*.pth", "sitecustomize.py", "conftest.py",
    ".cargo/**", ".npmrc", ".yarnrc*", ".pnp.*", "Makefile", "makefile", "GNUmakefile",
]
"""Files that a tool or an agent runs by itself once they exist."""

LOOKING = [
    "ls **", "pwd", "cd **", "cat **", "head **", "tail **", "wc **", "nl **", "file **", "stat **", "du **",
    "df **", "tree **", "find **", "fd **", "grep **", "egrep **", "fgrep **", "rg **", "sort **", "uniq **",
    "cut **", "tr **", "diff **", "cmp **", "comm **", "basename **", "dirname **", "realpath **", "which **",
    "echo **", "date", "whoami", "id", "uname **", "hostname", "ps", "true", "jq **", "sed -n **", "sha256sum **",
    "md5sum **", "column **", "git status **", "git log **", "git diff **", "git show **", "git blame **",
    "git grep **", "git rev-parse **", "git ls-files **", "git ls-tree **", "git cat-file **", "git describe **",
    "git shortlog **", "git reflog", "git branch", "git branch -a", "git branch -v", "git branch -vv",
    "git branch --show-current", "git branch --all", "git tag", "git tag -l", "git remote", "git remote -v",
    "git stash list", "git merge-base **", "git worktree list", "git config --list", "git count-objects **",
    "git name-rev **", "python --version", "python3 --version", "node --version", "node -v", "npm --version",
    "npm -v", "go version", "cargo --version", "rustc --version", "git --version", "pip list", "pip freeze",
    "npm ls", "npm list", "go list ./...",
]
TESTING = [
    "pytest **", "python -m pytest **", "python3 -m pytest **", "python -m unittest **", "python3 -m unittest **",
    "ruff check **", "ruff format **", "black **", "isort **", "flake8 **", "mypy **", "python -m mypy **",
    "pyright **", "basedpyright **", "tox", "tox -q", "nox", "coverage report **", "coverage run -m pytest", "make",
    "make test", "make tests", "make check", "make lint", "make build", "make all", "make format", "make -j4",
    "make clean", "just test", "just lint", "just check", "npm test", "npm run test", "npm run lint",
    "npm run build", "npm run typecheck", "npm run format", "npm run check", "npm run test:unit", "npm ci", "npm t",
    "yarn test", "yarn lint", "yarn build", "yarn typecheck", "yarn install --frozen-lockfile", "pnpm test",
    "pnpm lint", "pnpm build", "pnpm run test", "pnpm run lint", "pnpm run build", "npx tsc --noEmit",
    "npx eslint .", "npx jest", "npx vitest run", "npx prettier --check .", "tsc --noEmit **", "eslint **",
    "prettier --check **", "prettier --write **", "jest **", "vitest run **", "cargo build **", "cargo test **",
    "cargo check **", "cargo clippy **", "cargo fmt **", "cargo doc **", "cargo tree **", "go build **",
    "go test **", "go vet **", "go fmt **", "gofmt -l **", "go mod tidy", "golangci-lint run **", "mvn test",
    "mvn -q test", "mvn verify", "gradle test", "gradle build", "./gradlew test", "./gradlew build",
    "cmake --build build", "ctest **", "dotnet build **", "dotnet test **", "bundle exec rspec", "rake test",
    "composer test", "phpunit **", "mix test **", "swift build", "swift test", "shellcheck **", "mkdir **",
    "mkdir -p **", "touch **",
]

PRESETS: dict[Preset, tuple[Rule, ...]] = {
    "readonly": (
        Rule(name="readonly: ask before secrets", effect="ask", door="tool", path=list(SECRETS)),
        Rule(name="readonly: look around", effect="allow", door="tool", words=LOOKING,
             shell=["pipe", "and", "or", "sequence"]),
        Rule(name="readonly: read files", effect="allow", door="tool", kind=["read", "search"], path="**"),
    ),
    "edits": (
        Rule(name="edits: ask before secrets", effect="ask", door="tool", path=list(SECRETS)),
        Rule(name="edits: ask before what starts by itself", effect="ask", door="tool", kind=["edit", "delete", "move"],
             path=STARTS),
        Rule(name="edits: edit files", effect="allow", door="tool", kind="edit", path="**"),
        Rule(name="edits: read files", effect="allow", door="tool", kind=["read", "search"], path="**"),
    ),
    "ci": (
        Rule(name="ci: ask before secrets", effect="ask", door="tool", path=list(SECRETS)),
        Rule(name="ci: build and test", effect="allow", door="tool", words=[*LOOKING, *TESTING],
             shell=["pipe", "and", "or", "sequence"]),
    ),
    "boxed": (
        Rule(name="boxed: ask before a fetch", effect="ask", door="tool", kind="fetch"),
        Rule(name="boxed: work inside the box", effect="allow", door="tool", box=True),
        Rule(name="boxed: start in a box, for an agent that never asks", effect="allow", door="command",
             type="execute", permission="never", origin="user", box=True),
    ),
}


def rules_of(used: Iterable[Preset]) -> list[Rule]:
    """Return the rules of the presets that a config uses, in its order."""
    return [rule for name in used for rule in PRESETS[name]]


def is_broad(rule: Rule) -> bool:
    """Return whether an allow rule allows a tool any input."""
    looked_at = (rule.words, rule.command, rule.command_line, rule.path, rule.url, rule.digest, _box(rule))
    return rule.effect == "allow" and rule.door != "command" and rule.type is None and all(
        one is None for one in looked_at)


def _box(rule: Rule) -> bool | None:
    """Return whether a rule requires a box that confines writes and network; None if it requires less."""
    wanted = set(CLOSED) if rule.box is True else set(rule.box or ())
    return set(CLOSED) <= wanted or None
