"""GTID sets, brackets of upqueries, the ring of recent transactions and what is in flight. Pure: no I/O."""
