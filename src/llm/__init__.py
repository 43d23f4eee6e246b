"""Models behind HTTP: one door, typed failures, a ledger."""
