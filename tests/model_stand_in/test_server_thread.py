"""The model server in a thread: it listens before the block begins, and is gone after it."""

from __future__ import annotations

import socket
import threading

import httpx2
import pytest

from interlock.model_stand_in.server_thread import listen, running_model_server


def test_the_server_answers_from_the_start_of_the_block_and_never_after_it() -> None:
    with running_model_server() as server:
        assert httpx2.get(f"{server.url}/v1/models").status_code < 500
        port = int(server.url.rpartition(":")[2])
    assert not [one for one in threading.enumerate() if one.name == "model-server"]
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), 5):
        pass


def test_a_given_port_is_used() -> None:
    first, url = listen()
    with first:
        port = int(url.rpartition(":")[2])
        assert url == f"http://127.0.0.1:{port}"
        with pytest.raises(OSError, match="in use"):
            listen(port)
