"""Metrics, spans, readiness and the health of the cluster."""
