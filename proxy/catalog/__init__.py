"""The caches by name: made, planned anew after DDL, kept in a file, dropped."""
