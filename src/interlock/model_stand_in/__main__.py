"""`python -m interlock.model_stand_in [--port N]`: serve until SIGINT or SIGTERM; the first line on stdout is the URL.

`GET /recorded` returns the requests that it received.
"""

from __future__ import annotations

import argparse

from .request_log import Recording
from .server_thread import listen, make_server


def main() -> None:
    """Listen, print the URL, serve."""
    options = argparse.ArgumentParser(prog="python -m interlock.model_stand_in",
                                      description="A model server whose prompts control its answers.")
    options.add_argument("--port", type=int, default=0, help="0, the default, takes any free port")
    listening, url = listen(options.parse_args().port)
    print(url, flush=True)
    make_server(Recording()).run(sockets=[listening])


if __name__ == "__main__":
    main()
