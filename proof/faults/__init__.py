"""Fault injection: crashes at named places, disks that fill up or lose what was not synced, and networks that delay,
reorder and break. The checks that nothing was lost are in the folders of the proofs."""
