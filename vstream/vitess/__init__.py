"""The change stream of a keyspace of Vitess: vtgate's VStream."""
