"""Policy: rules, what they cover, budgets, and rules that people add with a vote."""
