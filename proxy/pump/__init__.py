"""Moves messages between the engine, the change stream and the upqueries."""
