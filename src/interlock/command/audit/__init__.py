"""The audit log as data: records, chain, Merkle tree, notes, and their verification."""
