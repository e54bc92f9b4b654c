"""Parts of every benchmark: processes and their limits, a scripted runner, a driver that costs little, and the form of
a report."""
