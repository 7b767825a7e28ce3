"""The SQL texts that fill keys: one, many, or all of a table."""
