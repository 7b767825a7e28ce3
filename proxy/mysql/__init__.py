"""The listener for MySQL's own protocol."""
