"""Several gateways over one database and one bus: durable frames, hops, failover, and the cost of a round trip
(`cluster`)."""
