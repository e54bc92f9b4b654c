"""A cluster on simulated time: gateways, runners, people and viewers in one process, and failures drawn from a seed."""
