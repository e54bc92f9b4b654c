"""An agent's text through Interlock's ACP doors, beside the same agent driven directly (`acp`)."""
