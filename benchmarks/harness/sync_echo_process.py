"""`python -m benchmarks.harness.sync_echo_process FILE`: the limit of a durable acknowledgement.

A blocking socket that writes received data to FILE, syncs it, and sends it back: two hops over loopback and one
fdatasync. Prints its URL once it listens; ends with its one connection, or SIGTERM.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


def main() -> None:
    """Serve one connection after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener, Path(sys.argv[1]).open("wb", buffering=0) as file:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        while True:
            peer, _ = listener.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with peer:
                while data := peer.recv(65_536):
                    file.write(data)
                    os.fdatasync(file.fileno())
                    peer.sendall(data)


if __name__ == "__main__":
    main()
