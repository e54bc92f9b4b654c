"""Acknowledged data survives processes killed at random instants or at named places, power cuts, full disks, damaged
files, and upgrades from earlier releases (R2 to R4, R13 to R15, T1, H-17, Y-15)."""
