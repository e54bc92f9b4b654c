-- oldest: 1
-- A row that is put again is found by its tenant and its key, as a table that is distributed by tenant needs it. Keys
-- without their tenant stay: a gateway of before finds its rows by them.
CREATE UNIQUE INDEX runner_of_tenant ON runner (tenant_id, runner_id);
CREATE UNIQUE INDEX api_key_of_tenant ON api_key (tenant_id, key_id);
CREATE UNIQUE INDEX remembered_rule_of_tenant ON remembered_rule (tenant_id, id);
CREATE UNIQUE INDEX signing_key_of_tenant ON signing_key (tenant_id, key_id);
CREATE UNIQUE INDEX delivery_of_tenant ON delivery (tenant_id, id);
