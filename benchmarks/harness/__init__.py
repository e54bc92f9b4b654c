"""What every benchmark is built of: processes and their limits, a scripted runner, a driver that costs little, and the
form of a report."""
