"""Benchmarks: each figure stands beside a limit that was measured on the same machine in the same run."""
