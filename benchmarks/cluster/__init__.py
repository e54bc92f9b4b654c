"""Several gateways over one database and one bus: durable frames, hops, failover, and what a round trip costs
(`cluster`)."""
