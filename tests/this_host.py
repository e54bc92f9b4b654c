"""The walls that this host can raise: tried once by each process that reads test files, in some 100 ms."""

from __future__ import annotations

from interlock.box.host import survey

HOST = survey()
