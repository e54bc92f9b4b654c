"""Channels that notify approvers and let them answer where they are (P-8)."""
