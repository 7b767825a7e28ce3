"""The caches by name: made, planned again after DDL, kept in a file, dropped."""
