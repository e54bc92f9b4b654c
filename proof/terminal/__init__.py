"""Recordings of terminals: a recorder of programs at several widths, and the grid of cells that it reads."""
