"""The one config file, `<state>/interlock.toml` (G-1), and where the state directory lies (G-2).

Read by gateway, runner and command line. An unknown key is an error that names file, line and the nearest known key.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec
import platformdirs

from interlock.command.policy import Rule
from interlock.ports.agent import AgentSpec
from interlock.protocol import limits
from interlock.protocol.identifiers import AGENT_ID

FILE_NAME = "interlock.toml"
DEFAULT_PORT = 7420


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the config's tables."""


class GatewaySection(Section, frozen=True, kw_only=True):
    """`[gateway]`: where it listens and over what (L-2), the host names it answers for beside loopback, the browser
    origins it allows."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    hosts: list[str] = []
    origins: list[str] = []
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    trusted_proxies: list[str] = []
    buffer_policy: Literal["RING", "DROP", "NONE"] = "RING"
    """What of a session's output a runner gives up while the link is down and its buffer is full (D-3)."""


    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_cert"
            raise ValueError(f"{missing}: a certificate needs its key, and a key its certificate")
        for text in self.trusted_proxies:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ValueError(f"trusted_proxies: {text!r} is no address and no network like 10.0.0.0/8") from None


class PolicySection(Section, frozen=True, kw_only=True):
    """`[policy]`: the ordered rules of P-1, `[[policy.rules]]`."""

    rules: list[Rule] = []


class LimitsSection(Section, frozen=True, kw_only=True):
    """`[limits]`: the clocks of C-1 and C-7, in milliseconds."""

    timeout_ms: int = limits.TIMEOUT_DEFAULT_MS
    approval_ttl_ms: int = limits.APPROVAL_TTL_MS
    queue_ttl_ms: int = limits.QUEUE_TTL_MS
    detach_ttl_ms: int = limits.DETACH_TTL_MS

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: a time in milliseconds, at least 1")
        if self.approval_ttl_ms > limits.APPROVAL_TTL_MAX_MS:
            raise ValueError(f"approval_ttl_ms: at most 30 days ({limits.APPROVAL_TTL_MAX_MS})")


class RunnerSection(Section, frozen=True, kw_only=True):
    """`[runner]`: the roots under which workspaces lie (A-1); empty means where it was started."""

    roots: list[str] = []
    outbox_bytes: int = limits.OUTBOX_BYTES
    agent_idle_ms: int = limits.AGENT_IDLE_MS
    drain_ms: Annotated[int, msgspec.Meta(ge=0)] = 0


class Config(Section, frozen=True, kw_only=True):
    """The whole file; a missing file is all defaults."""

    gateway: GatewaySection = GatewaySection()
    policy: PolicySection = PolicySection()
    limits: LimitsSection = LimitsSection()
    runner: RunnerSection = RunnerSection()
    agents: dict[str, AgentSpec] = {}


class ConfigError(Exception):
    """The file cannot be used; `sentences` has one for each mistake, with file, line and remedy."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


def state_directory(chosen: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Find the state directory: `--state`, `$INTERLOCK_STATE`, else the platform's own; made with mode 0700 (G-2).

    Raises ConfigError where it is a file, or a directory that is everybody's.
    """
    named = chosen or environment.get("INTERLOCK_STATE")
    path = Path(named) if named else platformdirs.user_state_path("interlock", appauthor=False)
    path = path.expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ConfigError([f"{path}: the state directory is a file. Name another one with --state."])
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = path.stat().st_mode
    if mode & stat.S_ISVTX:
        raise ConfigError([f"{path}: everybody may write there. Name a directory of your own with --state."])
    if mode & 0o077:
        path.chmod(0o700)
    return path


def load(path: Path) -> Config:
    """Read the config file. Raises ConfigError."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from None
    return parse(text, str(path))


def parse(text: str, file: str) -> Config:
    """Read a config's text; `file` is how errors name it. Raises ConfigError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_toml_sentence(file, str(error))]) from None
    reader = _Reader(file, text)
    config = reader.struct(Config, data, ())
    for name in config.agents if config else ():
        if AGENT_ID.fullmatch(name) is None:
            reader.mistake(("agents", name), f'"{name}" is no agent id: use a-z, 0-9, "-" and "_", at most 64.')
    if reader.sentences or config is None:
        raise ConfigError(reader.sentences)
    return config


def check(path: Path) -> list[str]:
    """Say what is wrong with the config file, one sentence each; [] when it is good."""
    try:
        load(path)
    except ConfigError as error:
        return error.sentences
    return []


_AT_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)")


def _toml_sentence(file: str, message: str) -> str:
    found = _AT_LINE.fullmatch(message)
    return f"{file}:{found[2]}: not TOML: {found[1]}." if found else f"{file}: not TOML: {message}."


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"))*)\s*=")
_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")

_Path = tuple[str | int, ...]


def key_lines(text: str) -> dict[_Path, int]:
    """Find the line (from 1) of each table and key; members of an array of tables are counted from 0."""
    lines: dict[_Path, int] = {}
    counts: dict[_Path, int] = {}
    table: _Path = ()
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            fence = "" if fence in line else fence
            continue
        if header := _HEADER.fullmatch(line):
            table = _resolved(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_parts(key[1])), number)
        for quotes in ('"""', "'''"):
            if line.count(quotes) % 2:
                fence = quotes
    return lines


def _parts(dotted: str) -> _Path:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _resolved(path: _Path, counts: Mapping[_Path, int]) -> _Path:
    """Put the index of the newest member behind each array of tables on the way."""
    out: _Path = ()
    for position, part in enumerate(path):
        out = (*out, part)
        if out in counts and position < len(path) - 1:
            out = (*out, counts[out])
    return out


class _Reader:
    """Turns tables into structs and collects every mistake instead of stopping at the first."""

    def __init__(self, file: str, text: str) -> None:
        self.sentences: list[str] = []
        self._file = file
        self._lines = key_lines(text)

    def mistake(self, path: _Path, sentence: str) -> None:
        at = path
        while at and at not in self._lines and (*at, 0) not in self._lines:
            at = at[:-1]
        if at not in self._lines and at:
            at = (*at, 0)  # The first member of an array of tables stands for the array.
        place = f"{self._file}:{self._lines[at]}" if at else self._file
        self.sentences.append(f"{place}: {sentence}")

    def struct(self, kind: type[Any], table: object, path: _Path) -> Any | None:
        """Read a table as a struct; None when it has mistakes, which are noted."""
        if not isinstance(table, dict):
            self.mistake(path, f"{_name(path)} is a table, write it as [{_dotted(path)}].")
            return None
        before = len(self.sentences)
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, Any] = {}
        for key, value in cast("dict[str, Any]", table).items():
            if key not in fields:
                near = difflib.get_close_matches(key, fields, 1)
                remedy = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(fields)}."
                self.mistake((*path, key), f'{_name(path)} has no key "{key}"; {remedy}')
                continue
            values[fields[key].name] = self._value(fields[key].type, value, (*path, key))
        for key, field in fields.items():
            if field.required and key not in table:
                self.mistake(path, f'{_name(path)} needs the key "{key}".')
        if len(self.sentences) > before:
            return None
        try:
            return kind(**values)
        except ValueError as error:
            key, _, sentence = str(error).partition(": ")
            self.mistake((*path, key), f'"{key}" in {_name(path)}: {sentence}.')
            return None

    def _value(self, kind: Any, value: object, path: _Path) -> Any:
        arguments = get_args(kind)
        inner: Any = arguments[-1] if arguments else None
        if _is_struct(kind):
            return self.struct(kind, value, path)
        if get_origin(kind) is dict and _is_struct(inner) and isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            return {key: self.struct(inner, member, (*path, key)) for key, member in table.items()}
        if get_origin(kind) is list and _is_struct(inner) and isinstance(value, list):
            members = cast("list[Any]", value)
            return [self.struct(inner, member, (*path, index)) for index, member in enumerate(members)]
        try:
            return msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as error:
            sentence = str(error).partition(" - at ")[0]
            self.mistake(path, f'"{path[-1]}" in {_name(path[:-1])}: {sentence[0].lower()}{sentence[1:]}.')
            return None


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _dotted(path: _Path) -> str:
    return ".".join(str(part) for part in path if isinstance(part, str))


def _name(path: _Path) -> str:
    return f"[{_dotted(path)}]" if path else "the file"


_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH)", re.IGNORECASE)


def show(config: Config) -> str:
    """Write the effective config as TOML, values of secret-looking environment variables left out."""
    data = cast("dict[str, Any]", msgspec.to_builtins(config))
    lines: list[str] = []
    rules = cast("list[dict[str, Any]]", data.pop("policy")["rules"])
    agents = cast("dict[str, dict[str, Any]]", data.pop("agents"))
    for name, section in cast("dict[str, dict[str, Any]]", data).items():
        lines += ["", f"[{name}]", *_entries(section)]
    for rule in rules:
        lines += ["", "[[policy.rules]]", *_entries(rule)]
    for name, agent in agents.items():
        env = cast("dict[str, str]", agent["env"])
        agent["env"] = {key: "(redacted)" if _SECRET.search(key) else value for key, value in env.items()}
        lines += ["", f"[agents.{name}]", *_entries(agent)]
    return "\n".join(lines[1:]) + "\n"


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items() if value is not None]


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's string form is a TOML basic string, DEL apart.
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(_toml(member) for member in cast("list[object]", value)) + "]"
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return "{" + ", ".join(f"{_toml(key)} = {_toml(member)}" for key, member in pairs if member is not None) + "}"
    return str(value)
