"""What is particular to a MySQL server: its bracket, its schema, its start-up check."""
