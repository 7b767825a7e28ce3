"""Plans whose answers are maintained by changes: rows, groups and first rows."""
