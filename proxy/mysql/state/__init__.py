"""What is known of a session at MySQL: variables, transactions, and what statements do to them."""
