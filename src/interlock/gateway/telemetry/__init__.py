"""Metrics, spans, and the health of the cluster."""
