"""Fault injection: crashes at named places, disks that fill up or lose what was not synced, and networks that delay,
reorder and break. What decides that nothing was lost is in the rooms of the proofs."""
