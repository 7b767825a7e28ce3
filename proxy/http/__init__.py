"""The HTTP listener: metrics, health, and what is shown to people."""
