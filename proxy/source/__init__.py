"""What is cached before: a MySQL server or a keyspace of Vitess, and what watches over it."""
