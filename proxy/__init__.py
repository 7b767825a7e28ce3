"""The composition root: the one place that knows everyone. gRPC, HTTP, the command line of the server."""
