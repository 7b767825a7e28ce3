"""All of it put together: the system that listeners call."""
