"""What is particular to vtgate: its bracket, its schema, and on which shard a key is."""
