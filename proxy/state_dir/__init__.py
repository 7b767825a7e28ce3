"""The state directory and its small files."""
