"""A real Vitess to test against: built with Go, run on private MySQLs."""
