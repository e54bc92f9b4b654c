"""The load of a proof, and its outcome: clients, viewers and agents that keep a record of what was acknowledged or
shown, a ledger with history, and the tally of outcomes at the end."""
