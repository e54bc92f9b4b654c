"""Several gateways over one ledger: leases, takeovers, restarts in turn, a database that fails over, tenants that move,
and the cluster's form of the proofs of single gateways (R2, R5, R8 to R10 with `--cluster`)."""
