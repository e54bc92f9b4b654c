"""A whole gateway, as `interlock gateway` runs it.

`python -m benchmarks.harness.gateway_process STATE TOKEN_FILE [STORE BUS]`

With the addresses of a database and a bus it is one of several. Prints its URL once it listens; ends with SIGTERM.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop

from interlock.app.gateway import run_gateway
from interlock.config import Config, GatewaySection
from interlock.config.sections import ClusterSection


def main() -> None:
    """Run until SIGTERM."""
    state, token_file = Path(sys.argv[1]), Path(sys.argv[2])
    store, bus = sys.argv[3:] or (None, None)
    config = Config(gateway=GatewaySection(port=0), cluster=ClusterSection(store=store, bus=bus))
    uvloop.run(run_gateway(state, config, ready=lambda url: print(url, flush=True), local_runner_token=token_file))


if __name__ == "__main__":
    main()
