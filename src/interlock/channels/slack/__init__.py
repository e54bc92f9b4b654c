"""Slack by Socket Mode, which needs no public URL: a connection from here receives what people write and press (O-12).
"""
