"""One cache: its key, how its answers are encoded, its ledger, and whether it is trusted."""
