-- oldest: 1
-- What is asked often, or in steps, finds what it looks for without going through all that a tenant ever did: how many
-- commands were given since midnight (a daily quota, with each command), the newest deliveries, and old ones that go.
-- On a large store this holds writes up for some seconds, once.
CREATE INDEX command_executed ON command (tenant_id, created_ms) WHERE type = 'execute';
CREATE INDEX delivery_by_tenant ON delivery (tenant_id, place);
CREATE INDEX delivery_done ON delivery (tenant_id, created_at) WHERE due_ms IS NULL;
