"""Readers: answers derived from what is held, their bytes, and which keys are evicted."""
