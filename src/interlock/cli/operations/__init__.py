"""Verbs of operators: status, doctor, runners, pauses and drains, cron, usage, webhooks."""
