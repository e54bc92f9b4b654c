-- Which audit records name a command, or an approval that has no command (H-5). The ids are read out of the canonical
-- body itself, at whose front they are: a column of its own could be changed without touching the record.
CREATE INDEX audit_by_command ON audit (
    substr(CAST(substr(body, 1, 176) AS TEXT), instr(CAST(substr(body, 1, 176) AS TEXT), '"command_id":"') + 14, 30)
) WHERE instr(CAST(substr(body, 1, 176) AS TEXT), '"command_id":"cmd_') > 0;
CREATE INDEX audit_by_approval ON audit (
    substr(CAST(substr(body, 1, 176) AS TEXT), instr(CAST(substr(body, 1, 176) AS TEXT), '"approval_id":"') + 15, 30)
) WHERE instr(CAST(substr(body, 1, 176) AS TEXT), '"approval_id":"apr_') > 0
    AND instr(CAST(substr(body, 1, 176) AS TEXT), '"command_id":"cmd_') = 0;
