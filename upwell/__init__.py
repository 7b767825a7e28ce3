"""Upwell: a caching proxy beside MySQL. An application imports `upwell.client` or `upwell.aio`."""

__version__ = "0.8.0"
