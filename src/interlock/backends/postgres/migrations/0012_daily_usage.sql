-- oldest: 1
-- What agents reported to have used (J-13), a row for each day (since 1970-01-01, UTC), agent, model, session and person.
CREATE TABLE daily_usage (
    tenant_id          text COLLATE "C" NOT NULL,
    day                bigint NOT NULL,
    agent_id           text COLLATE "C" NOT NULL,
    model              text COLLATE "C" NOT NULL,
    session_id         text COLLATE "C" NOT NULL,
    person             text COLLATE "C" NOT NULL,
    turns              bigint NOT NULL,
    estimated_turns    bigint NOT NULL,
    input_tokens       bigint NOT NULL,
    output_tokens      bigint NOT NULL,
    cache_read_tokens  bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    cost_micros        bigint NOT NULL,
    PRIMARY KEY (tenant_id, day, agent_id, model, session_id, person)
) WITH (fillfactor = 80);
CREATE INDEX daily_usage_by_day ON daily_usage (day);
