-- What budgets count (P-7): a pot for each tenant, budget, scope and day (days since 1970-01-01, UTC).
CREATE TABLE spending (
    day           INTEGER NOT NULL,
    tenant_id     TEXT NOT NULL,
    budget        TEXT NOT NULL,
    scope         TEXT NOT NULL,
    spent_micros  INTEGER NOT NULL,
    raised_micros INTEGER NOT NULL,
    PRIMARY KEY (day, tenant_id, budget, scope)
) WITHOUT ROWID;
