-- oldest: 1
-- As 0013, for what a tenant's sessions have and for the links of its runners.
CREATE UNIQUE INDEX session_of_tenant ON session (tenant_id, session_id);
CREATE UNIQUE INDEX command_of_tenant ON command (tenant_id, id);
CREATE UNIQUE INDEX approval_of_tenant ON approval (tenant_id, id);
CREATE UNIQUE INDEX runner_link_of_tenant ON runner_link (tenant_id, runner_id);
