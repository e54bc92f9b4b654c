-- What agents reported to have used (J-13), a row for each day (since 1970-01-01, UTC), agent, model, session and person.
CREATE TABLE daily_usage (
    tenant_id          TEXT NOT NULL,
    day                INTEGER NOT NULL,
    agent_id           TEXT NOT NULL,
    model              TEXT NOT NULL,
    session_id         TEXT NOT NULL,
    person             TEXT NOT NULL,
    turns              INTEGER NOT NULL,
    estimated_turns    INTEGER NOT NULL,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    cost_micros        INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, day, agent_id, model, session_id, person)
) WITHOUT ROWID;
CREATE INDEX daily_usage_by_day ON daily_usage (day);
