"""One proxy takes over from another that serves the same source on the same ports: what they say to each other."""
