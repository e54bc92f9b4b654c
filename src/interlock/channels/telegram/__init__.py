"""Telegram in both directions, by its Bot API: people write to agents there, and decide over approvals there.

It is one more program at the gateway's API: what a person says or votes there goes out under that person's own key.
"""
