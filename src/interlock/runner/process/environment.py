"""The environment of an agent's process (A-1): an allow-list, the configured variables, and Interlock's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

SESSION = "RAWP_SESSION_ID"
WORKSPACE = "RAWP_WORKSPACE_PATH"
VERSION = "RAWP_DPS_VERSION"
RUNNER = "RAWP_RUNNER_ID"
"""The runner that started the process: the next start finds leftover processes by it (A-4)."""
DPS_VERSION = "rawp-dps-1.0"

ALLOWED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "TMPDIR",
    "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
})  # fmt: skip
"""Locations, language, terminal and network settings. No credentials and no sockets of agents that hold them
(SSH_AUTH_SOCK): an agent gets those that its `env` or `env_pass` names."""
ALLOWED_PREFIXES = ("LC_", "XDG_")
OWN_PREFIX = "INTERLOCK_"


def environment(
    base: Mapping[str, str],
    *,
    session_id: str,
    workspace: Path | str,
    runner_id: str,
    extra: Mapping[str, str] | None = None,
    credentials: Collection[str] = (),
) -> dict[str, str]:
    """Return the whole environment of one agent (A-1).

    Of `base`, the runner's own, only the allow-list and the variables named in `credentials` pass; `extra`, the agent's
    configured `env`, wins over it; the RAWP_ variables win over both. INTERLOCK_ variables, among them the runner's
    secrets, never pass, whatever their source. Raises ValueError unless `workspace` is absolute.
    """
    if not Path(workspace).is_absolute():
        raise ValueError(f"The workspace {str(workspace)!r} is not an absolute path.")
    passed = {name: value for name, value in base.items() if name in ALLOWED or name.startswith(ALLOWED_PREFIXES)
              or (name in credentials and not name.startswith(OWN_PREFIX))}
    configured = {name: value for name, value in (extra or {}).items() if not name.startswith(OWN_PREFIX)}
    own = {SESSION: session_id, WORKSPACE: str(workspace), VERSION: DPS_VERSION, RUNNER: runner_id}
    return passed | configured | own
