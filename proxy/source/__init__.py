"""The source that is cached, a MySQL server or a keyspace of Vitess, and the watches over it."""
