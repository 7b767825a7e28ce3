"""Upwell: a caching proxy beside MySQL. This package is what an application imports: `upwell.client` and `upwell.aio`."""
__version__ = "0.1.0"
