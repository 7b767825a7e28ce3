"""Which reads of a session may be answered from a cache, and by which route."""
