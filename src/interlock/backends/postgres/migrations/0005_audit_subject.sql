-- oldest: 1
-- Which audit records name a command, or an approval that has no command (H-5). The ids are read out of the canonical
-- body itself, at whose front they are: a column of its own could be changed without touching the record.
CREATE INDEX audit_by_command ON audit (
    substring(encode(substring(body FROM 1 FOR 176), 'escape') FROM '"command_id":"(cmd_[^"]+)"')
) WHERE substring(encode(substring(body FROM 1 FOR 176), 'escape') FROM '"command_id":"(cmd_[^"]+)"') IS NOT NULL;
CREATE INDEX audit_by_approval ON audit (
    substring(encode(substring(body FROM 1 FOR 176), 'escape') FROM '"approval_id":"(apr_[^"]+)"')
) WHERE substring(encode(substring(body FROM 1 FOR 176), 'escape') FROM '"approval_id":"(apr_[^"]+)"') IS NOT NULL
    AND substring(encode(substring(body FROM 1 FOR 176), 'escape') FROM '"command_id":"(cmd_[^"]+)"') IS NULL;
