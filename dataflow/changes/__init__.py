"""A transaction's row changes, taken to the arrangements that they concern."""
