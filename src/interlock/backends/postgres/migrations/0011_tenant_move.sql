-- oldest: 1
-- A tenant that moves to another cluster or comes from one, while gateways work on both (K-1). What moves it waits for
-- each live gateway to have acknowledged the step; one of an earlier version never does, and nothing is moved.
CREATE TABLE tenant_move (
    tenant_id text COLLATE "C" PRIMARY KEY,
    move_id   text NOT NULL,
    step      text NOT NULL,
    ends_ms   bigint NOT NULL
);
CREATE TABLE tenant_move_ack (
    tenant_id   text COLLATE "C" NOT NULL,
    instance_id text COLLATE "C" NOT NULL,
    move_id     text NOT NULL,
    step        text NOT NULL,
    PRIMARY KEY (tenant_id, instance_id)
);
-- While a tenant is handed over no gateway takes its lanes or writes to its audit log, whether it knows of the move or not.
ALTER TABLE lane ADD COLUMN frozen boolean NOT NULL DEFAULT false;
ALTER TABLE audit_head ADD COLUMN frozen boolean NOT NULL DEFAULT false;
