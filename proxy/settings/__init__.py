"""The configuration, and what is known of the machine."""
