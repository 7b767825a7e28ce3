"""SQL to the source and back: connections, the bracket, batching, reflection. Does not know the change stream."""
