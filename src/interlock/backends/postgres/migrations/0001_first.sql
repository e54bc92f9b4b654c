-- oldest: 1
-- The first schema. Text is compared by its bytes, so that a page of names has the order that every other ledger gives
-- it. `place` columns keep the order of insertion, which is the order lists are given in; no cursor rests on one that
-- several gateways write at the same time. Bodies are bytes: what a person wrote may hold what JSON of a database refuses.

CREATE TABLE store (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Which schema this is; `oldest` is the oldest program that works on it beside the newest.
CREATE TABLE schema_version (
    version    integer PRIMARY KEY,
    oldest     integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- One row for each writing connection: the last transaction of it that was committed. Who lost the link during a commit
-- looks here whether it was. Vacuumed in place: nothing but `number` and `at` ever changes.
CREATE TABLE writer (
    id     text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    at     timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- One owner for each lane (C-4): every commit that names a lane must carry the epoch that stands here. `instance_id` is
-- '' where nobody has it, or one gateway alone has all of them.
CREATE TABLE lane (
    name        text COLLATE "C" PRIMARY KEY,
    epoch       bigint NOT NULL,
    instance_id text COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 80);
CREATE INDEX lane_of_instance ON lane (instance_id) WHERE instance_id <> '';

-- Which gateways are there. Time is this server's own, so that gateways whose clocks differ agree.
CREATE TABLE instance (
    instance_id text COLLATE "C" PRIMARY KEY,
    address     text NOT NULL,
    expires_ms  bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE runner_link (
    runner_id   text COLLATE "C" PRIMARY KEY,
    tenant_id   text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    link_id     text NOT NULL,
    present     bytea NOT NULL
);

CREATE FUNCTION interlock_now_ms() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- Numbered streams (S-1). The head outlives events that retention takes away, so a number is never given twice.
CREATE TABLE stream (
    id   bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    name text COLLATE "C" PRIMARY KEY,
    head bigint NOT NULL
) WITH (fillfactor = 80);

CREATE TABLE event (
    stream_id  bigint NOT NULL,
    n          bigint NOT NULL,
    kind       text NOT NULL,
    at_ms      bigint NOT NULL,
    message_id text NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (stream_id, n)
);

CREATE TABLE session (
    place         bigint GENERATED ALWAYS AS IDENTITY,
    session_id    text COLLATE "C" PRIMARY KEY,
    tenant_id     text COLLATE "C" NOT NULL,
    session_key   text COLLATE "C" NOT NULL,
    agent_id      text COLLATE "C" NOT NULL,
    runner_id     text COLLATE "C" NOT NULL,
    workspace     text NOT NULL,
    state         text NOT NULL,
    created_ms    bigint NOT NULL,
    updated_ms    bigint NOT NULL,
    deadline_ms   bigint,
    usage         bytea NOT NULL,
    machine       bytea NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX session_by_key ON session (tenant_id, session_key, created_ms);
CREATE INDEX session_by_activity ON session (tenant_id, updated_ms, session_id);
CREATE INDEX session_open ON session (runner_id) WHERE state <> 'closed';
CREATE INDEX session_due ON session (deadline_ms) WHERE deadline_ms IS NOT NULL;

CREATE TABLE command (
    place      bigint GENERATED ALWAYS AS IDENTITY,
    id         text COLLATE "C" PRIMARY KEY,
    tenant_id  text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    state      text NOT NULL,
    agent_id   text COLLATE "C",
    actor_id   text COLLATE "C" NOT NULL,
    ended_ms   bigint,
    type       text NOT NULL,
    created_ms bigint NOT NULL,
    body       bytea NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX command_by_tenant ON command (tenant_id, place);
CREATE INDEX command_by_state ON command (tenant_id, state, place);
CREATE INDEX command_by_session ON command (tenant_id, session_id, place);
CREATE INDEX command_by_agent ON command (tenant_id, agent_id, place);
CREATE INDEX command_by_actor ON command (tenant_id, actor_id, place);
CREATE INDEX command_live ON command (session_id, place) WHERE ended_ms IS NULL;

CREATE TABLE approval (
    place      bigint GENERATED ALWAYS AS IDENTITY,
    id         text COLLATE "C" PRIMARY KEY,
    tenant_id  text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    state      text NOT NULL,
    body       bytea NOT NULL
);
CREATE INDEX approval_by_tenant ON approval (tenant_id, place);
CREATE INDEX approval_by_state ON approval (tenant_id, state, place);
CREATE INDEX approval_live ON approval (session_id, place) WHERE state IN ('pending', 'granted');

CREATE TABLE control (
    session_id text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    message_id text NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE file (
    place       bigint GENERATED ALWAYS AS IDENTITY,
    session_id  text COLLATE "C" NOT NULL,
    transfer_id text COLLATE "C" NOT NULL,
    objects     text[] NOT NULL,
    body        bytea NOT NULL,
    PRIMARY KEY (session_id, transfer_id)
);
CREATE INDEX file_by_session ON file (session_id, place);

CREATE TABLE idempotency (
    scope       text COLLATE "C" PRIMARY KEY,
    fingerprint text NOT NULL,
    status      integer NOT NULL,
    headers     bytea NOT NULL,
    created_ms  bigint NOT NULL,
    command_id  text COLLATE "C",
    body        bytea NOT NULL
);
CREATE INDEX idempotency_by_age ON idempotency (created_ms);

-- When a runner was last seen, or a key last used, stands beside its body: it is written alone, so that it never brings
-- back an older token, or what was revoked.
CREATE TABLE runner (
    place        bigint GENERATED ALWAYS AS IDENTITY,
    runner_id    text COLLATE "C" PRIMARY KEY,
    tenant_id    text COLLATE "C" NOT NULL,
    token_sha256 text COLLATE "C" NOT NULL CONSTRAINT runner_token UNIQUE,
    last_seen_ms bigint NOT NULL,
    body         bytea NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX runner_by_tenant ON runner (tenant_id, place);

CREATE TABLE api_key (
    key_id       text COLLATE "C" PRIMARY KEY,
    key_sha256   text COLLATE "C" NOT NULL CONSTRAINT api_key_secret UNIQUE,
    tenant_id    text COLLATE "C" NOT NULL,
    last_used_ms bigint NOT NULL,
    body         bytea NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX api_key_by_tenant ON api_key (tenant_id, key_id);

CREATE TABLE pairing (
    code_sha256 text COLLATE "C" PRIMARY KEY,
    tenant_id   text COLLATE "C" NOT NULL,
    expires_ms  bigint NOT NULL,
    body        bytea NOT NULL
);
CREATE INDEX pairing_by_expiry ON pairing (expires_ms);

CREATE TABLE remembered_rule (
    place     bigint GENERATED ALWAYS AS IDENTITY,
    id        text COLLATE "C" PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    revoked   boolean NOT NULL,
    body      bytea NOT NULL
);
CREATE INDEX remembered_rule_in_force ON remembered_rule (tenant_id, revoked);

CREATE TABLE signing_key (
    place     bigint GENERATED ALWAYS AS IDENTITY,
    key_id    text COLLATE "C" PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    body      bytea NOT NULL
);
CREATE INDEX signing_key_by_tenant ON signing_key (tenant_id);

CREATE TABLE tenant (
    tenant_id text COLLATE "C" PRIMARY KEY,
    body      bytea NOT NULL
);

CREATE TABLE delivery (
    place      bigint GENERATED ALWAYS AS IDENTITY,
    id         text COLLATE "C" PRIMARY KEY,
    tenant_id  text COLLATE "C" NOT NULL,
    state      text NOT NULL,
    due_ms     bigint,
    created_at text COLLATE "C" NOT NULL,
    body       bytea NOT NULL
);
CREATE INDEX delivery_due ON delivery (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX delivery_by_state ON delivery (tenant_id, state, place);

CREATE TABLE drain (
    place     bigint GENERATED ALWAYS AS IDENTITY,
    tenant_id text COLLATE "C" NOT NULL,
    scope     text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (tenant_id, scope, name)
);

CREATE TABLE spending (
    day           bigint NOT NULL,
    tenant_id     text COLLATE "C" NOT NULL,
    budget        text COLLATE "C" NOT NULL,
    scope         text COLLATE "C" NOT NULL,
    spent_micros  bigint NOT NULL,
    raised_micros bigint NOT NULL,
    PRIMARY KEY (day, tenant_id, budget, scope)
) WITH (fillfactor = 80);

-- Lines for files beside the database, where transcripts are kept so.
CREATE TABLE transcript_pending (
    place      bigint GENERATED ALWAYS AS IDENTITY,
    session_id text COLLATE "C" NOT NULL,
    entry_id   text COLLATE "C" NOT NULL,
    line       bytea NOT NULL,
    PRIMARY KEY (session_id, entry_id)
);

-- Transcripts that are kept here (X-3). Line 0 is the header; `lines` counts those behind it, whether they are still
-- there or not. `kept` is '' for the transcript itself, else the name under which a repair has kept an older one.
CREATE TABLE transcript (
    session_id text COLLATE "C" NOT NULL,
    kept       text COLLATE "C" NOT NULL DEFAULT '',
    agent_id   text COLLATE "C" NOT NULL,
    lines      bigint NOT NULL,
    PRIMARY KEY (session_id, kept)
) WITH (fillfactor = 80);
CREATE TABLE transcript_line (
    session_id text COLLATE "C" NOT NULL,
    kept       text COLLATE "C" NOT NULL DEFAULT '',
    n          bigint NOT NULL,
    entry_id   text COLLATE "C",
    line       bytea NOT NULL,
    PRIMARY KEY (session_id, kept, n)
);
CREATE INDEX transcript_line_of_entry ON transcript_line (session_id, entry_id) WHERE entry_id IS NOT NULL;

-- U-2: the chain of each tenant, and where it ends; `peaks` are the roots of the whole subtrees that it is made of
-- (RFC 6962), and audit_node has the roots of whole subtrees of 2^8, 2^16 … leaves.
CREATE TABLE audit_head (
    tenant_id text COLLATE "C" PRIMARY KEY,
    count     bigint NOT NULL,
    last_hash text NOT NULL,
    peaks     bytea NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE audit (
    tenant_id text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    hash      text NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);
CREATE TABLE audit_node (
    tenant_id text COLLATE "C" NOT NULL,
    level     bigint NOT NULL,
    place     bigint NOT NULL,
    hash      bytea NOT NULL,
    PRIMARY KEY (tenant_id, level, place)
);
-- U-4: what records only commit to. These rows may go; they are never changed.
CREATE TABLE audit_personal (
    tenant_id text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    name      text COLLATE "C" NOT NULL,
    who       text COLLATE "C" NOT NULL,
    salt      text NOT NULL,
    value     bytea NOT NULL,
    PRIMARY KEY (tenant_id, seq, name)
);
CREATE INDEX audit_personal_of ON audit_personal (tenant_id, who, seq);

CREATE FUNCTION interlock_audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an audit record is never changed or deleted';
END
$$;
CREATE TRIGGER audit_never_changed BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION interlock_audit_stays();
CREATE TRIGGER audit_never_emptied BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION interlock_audit_stays();
CREATE TRIGGER audit_personal_never_changed BEFORE UPDATE ON audit_personal
    FOR EACH ROW EXECUTE FUNCTION interlock_audit_stays();
