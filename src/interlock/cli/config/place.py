"""The state directory, and the files in it that verbs read (G-2)."""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.backends.sqlite.lock import LOCK_NAME
from interlock.cli.verb_error import usage
from interlock.durable_files import replace_file
from interlock.protocol.limits import READY_TIMEOUT_S

GATEWAY_FILE = "gateway.json"
OWNER_KEY_FILE = "owner.key"
PUBLIC_KEY_FILE = "gateway.pub"
RUNNER_TOKEN_FILE = "runner/token"
"""The token of the runner that `up` pairs by itself."""
RUNNER_DIRECTORY = LOCAL_HOME = "runner"
"""Where runners store their outboxes: that of `up` in this directory, a paired one below it."""
LOGS = "logs"
LOCAL_RUNNER = "local"
"""The id of the runner that `up` starts."""
UP_LOCK = "up.lock"
"""Locked by the `up` of a state directory, with its process id as content."""
CURSORS_FILE = "cursors.json"
CHAT_HISTORY_FILE = "chat-history"
"""The lines typed in `interlock chat`, recalled with the arrow keys."""


class GatewayFile(msgspec.Struct, frozen=True):
    """`<state>/gateway.json`: written when the gateway listens, removed when it ends."""

    url: str
    pid: int
    cert: str = ""
    """Path of the certificate that the gateway presents, if it uses TLS."""


@dataclass(frozen=True)
class OnHost:
    """Which state directory of this host a verb works on; it contacts no gateway."""

    state: Annotated[Path | None, Parameter(help="State directory (else $INTERLOCK_STATE, else the platform's own).")] \
        = None

    def directory(self) -> Path:
        """Return the state directory, for a verb that reads it, and does not make it. One that `--state` names must
        exist. Raises Trouble."""
        self._check_named()
        return state_directory(self.state, make=False)

    def _check_named(self) -> None:
        if self.state is not None and not os.path.lexists(self.state.expanduser()):
            raise usage(f"The state directory {self.state.expanduser().absolute()} does not exist.",
                        f"To list what is in a state, write --only {self.state}." if is_state_of_work(self.state) else
                        "Name with --state the directory of a gateway, or make one with: interlock up --state PATH")

    def made_directory(self) -> Path:
        """Return the state directory, for a verb that writes there; it is made if it does not exist. Raises Trouble."""
        return state_directory(self.state)


@dataclass(frozen=True)
class Where(OnHost):
    """Which state directory and which gateway a verb uses."""

    url: Annotated[str | None, Parameter(help="URL of the gateway (else $INTERLOCK_URL, else the context in use).")] \
        = None
    on: Annotated[str | None, Parameter(name=("--on", "--context"), help="The context, a gateway that you logged in to "
                                        "(else $INTERLOCK_ON, else the one in use).")] = None
    ca: Annotated[Path | None, Parameter(help="PEM file of a CA to trust in addition to the system's (else "
                                              "$INTERLOCK_CA).")] \
        = None

    def directory(self) -> Path:
        """Return the state directory, for a verb that does not make it. If another gateway is named, it is that of a
        client, which is made when something is stored there. Raises Trouble."""
        if is_state_of_work(self.state) or not (self.url or self.on is not None or os.environ.get("INTERLOCK_URL")):
            self._check_named()
        return state_directory(self.state, make=False)


Here = Annotated[Where, Parameter(name="*")]
"""The options of a verb that name its gateway."""
HereOnHost = Annotated[OnHost, Parameter(name="*")]
"""The option of a verb that works on the files of this host alone."""


@dataclass(frozen=True)
class WhereByContext(Where):
    """The same for a verb whose `--on` is a day."""

    on: Annotated[str | None, Parameter(name="--context", help="The context, a gateway that you logged in to (else "
                                        "$INTERLOCK_ON, else the one in use).")] = None


HereByContext = Annotated[WhereByContext, Parameter(name="*")]
"""The options of such a verb."""

NOWHERE = Where()
NOWHERE_ON_HOST = OnHost()
NOWHERE_BY_CONTEXT = WhereByContext()


def is_state_of_work(named: Path | None) -> bool:
    """Return whether `--state`, which names a directory, probably means the state of an approval, a task or a session,
    which `--only` names."""
    if named is None:
        return False
    from typing import get_args

    from interlock.protocol.resources import ApprovalState, CommandState, SessionActivity

    return str(named) in {*get_args(ApprovalState), *get_args(CommandState), *get_args(SessionActivity)}


def state_directory(option: Path | None, *, make: bool = True) -> Path:
    """Find the state directory: the option, otherwise `$INTERLOCK_STATE`, otherwise the platform's default (G-2); it is
    made if it does not exist and `make` is set. Raises Trouble."""
    from interlock import config

    try:
        return config.state_directory(option, make=make)
    except config.ConfigError as error:
        raise usage(error.sentences[0]) from None
    except OSError as error:
        raise usage(f"The state directory {error.filename} cannot be made: {error.strerror}.",
                    "Name another with --state or $INTERLOCK_STATE.") from None


def option_for(state: Path) -> str:
    """Return the option with which a verb finds this state directory, after a space; "" if it finds it without one."""
    from interlock import config

    try:
        usual = config.state_directory(None, make=False) == state
    except (config.ConfigError, OSError):
        usual = False
    return "" if usual else f" --state {shlex.quote(str(state))}"


def writable(state: Path) -> Path:
    """Check that this process may write in the state directory. Raises Trouble."""
    try:
        probe = state / ".probe"  # One name: the next verb removes what a killed one left.
        probe.touch(mode=0o600)
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise usage(f"The state directory {state} cannot be written: {error.strerror}.",
                    "Name another with --state or $INTERLOCK_STATE.") from None
    return state


def gateway_file(state: Path) -> GatewayFile | None:
    """Read which gateway runs on this state directory; None if none has written its file."""
    try:
        raw = (state / GATEWAY_FILE).read_bytes()
    except OSError:
        return None
    try:
        return msgspec.json.decode(raw, type=GatewayFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def holder(lock: Path) -> int | None:
    """Return the process that holds a lock file, or None. A stored pid alone may have been reused by another
    process."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        written = os.pread(descriptor, 32, 0).strip()
        return int(written) if written.isdigit() else None
    finally:
        os.close(descriptor)
    return None


def up_is_starting(state: Path, now_s: float | None = None) -> bool:
    """Return whether an `interlock up` on this state directory began less than `READY_TIMEOUT_S` ago."""
    try:
        began_s = (state / UP_LOCK).stat().st_mtime
    except OSError:
        return False
    return up_process(state) is not None and 0 <= (time.time() if now_s is None else now_s) - began_s < READY_TIMEOUT_S


def up_process(state: Path) -> int | None:
    """Return the process of the `interlock up` that works on this state directory, or None."""
    try:
        written = int((state / UP_LOCK).read_text("ascii"))
        if written <= 0:
            return None
        os.kill(written, 0)
    except (OSError, ValueError, OverflowError):
        return None  # Without a look at the lock: an `up` that begins at this moment finds it free.
    return holder(state / UP_LOCK)


def running_gateway(state: Path) -> GatewayFile | None:
    """Return the gateway that runs on this state directory, or that `interlock up` is about to restart there.

    The file of one that was killed is not believed: any program may listen at its address now, and would receive the
    key. The kernel releases the lock of a gateway with its process, in whichever container that runs.
    """
    announced = gateway_file(state)
    if announced is None or up_process(state) is not None or not os.access(state / LOCK_NAME, os.R_OK):
        return announced
    return announced if holder(state / LOCK_NAME) is not None else None


def read_within(path: Path, limit: int) -> bytes | None:
    """Read a file; None if it has more bytes than `limit`. A pipe or a device does not state its size before, and may
    not end. Raises OSError."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > limit:
            return None
        data = file.read(limit + 1)
    return data if len(data) <= limit else None


def write_private(path: Path, content: bytes) -> None:
    """Replace a file (mode 0600) durably; two commands that do so at the same time do not mix. Raises OSError."""
    replace_file(path, content, writer=str(os.getpid()))
