"""What the runner's link changes in a lane: frames, attachments, losses, restored ledgers."""
