"""The same work through Interlock and through other servers of agents, on one machine in one run (`peers`)."""
