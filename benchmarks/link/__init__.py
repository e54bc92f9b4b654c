"""The link between runner and gateway: durable frames a second with the stages of their path, backlog, a child's
output, reattachment, and the cost of idle sessions (`frames`, `link`)."""
