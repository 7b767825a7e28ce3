"""The system that all listeners call: it answers reads, makes and drops caches, and tells subscribers of changes."""
