"""What was acknowledged is still there after processes were killed at random instants or at named places, after power
cuts, on full disks, in damaged files, and in states of earlier releases (R2 to R4, R13 to R15, T1, H-17, Y-15)."""
