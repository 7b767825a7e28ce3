"""The gRPC listener and its service."""
