"""Every statement of the stores on PostgreSQL, by name: the requirements of a version of the program on the schema.

`python statements.py` prints them as JSON: `statements_NNNN.json` keeps those of the program whose newest migration is
NNNN, for the test that it works with a newer schema. It is made when that version is released, and then stays.
"""

from __future__ import annotations

import importlib
import json

from backends.entity_reads import entity_reads
from interlock.backends.postgres import entities, lane_takeover
from interlock.ports.entities import ENTITIES

MODULES = ("entries", "leases", "lane_takeover", "lease_renewal", "queries", "statements", "transcripts")
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


def all_statements(further: tuple[str, ...] = ()) -> dict[str, str]:
    """Return them; those of `further` modules as well, which gateways of other versions do not share."""
    found: dict[str, str] = {}
    for module in (*MODULES, *further):
        names = vars(importlib.import_module(f"interlock.backends.postgres.{module}"))
        for name, value in names.items():
            if name.isupper() and not name.startswith("_") and isinstance(value, str) and value.startswith(
                    tuple(f"{before}{verb}" for verb in VERBS for before in ("", "\n"))):
                found[f"{module}.{name}"] = value
    parts = ", ".join(f"{name} AS ({sql})" for name, sql in lane_takeover.CLAIM)
    found["lane_takeover.CLAIM"] = f"WITH {parts} SELECT numbers FROM changed"
    queries = importlib.import_module("interlock.backends.postgres.queries")
    found["queries.commands"] = queries.commands(("state", "agent_id", "session_id", "actor_id", "type"), paged=True)
    for one in entity_reads():
        found[f"entities.{one.name}"] = (
            entities.count_sql(one.entity, one.where) if one.order is None else
            entities.select_sql(one.entity, one.where, one.order, limited=one.limited))
    for entity in ENTITIES:
        made = {"put": entities.put_operation,
                **({"drop": entities.drop_operation} if "tenant_id" in entity.key else {}),
                **({"expire": entities.expire_operation} if entity.expires else {}),
                **({"note": entities.note_operation} if entity.noted else {}),
                **({"redeem": entities.redeem_operation, "change": entities.change_operation}
                   if entity.missing else {})}
        found |= {f"entities.{name} {entity.table}": operation(entity).sql for name, operation in made.items()}
    return found


if __name__ == "__main__":
    print(json.dumps(all_statements(), indent=1, sort_keys=True))
