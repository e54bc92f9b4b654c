"""Gateways, runners and servers as processes that a proof starts, stops and kills.

`stack` is one gateway with one runner, `cluster` three gateways with several runners. `component` and its variants
are the programs of these processes. `in_memory_gateway` starts none: it is a gateway's API in the proof's own process.
"""
