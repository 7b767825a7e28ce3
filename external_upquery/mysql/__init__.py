"""What is particular to a MySQL server: its schema, its start-up check, sessions with other settings."""
