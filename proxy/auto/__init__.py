"""Automatic caching: which queries that passed become caches, and which caches leave."""
