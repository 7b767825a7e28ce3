"""Work that Spark does for the proxy, in a process of its own: large fills."""
