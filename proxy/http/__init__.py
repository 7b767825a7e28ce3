"""The HTTP listener: metrics, health, and pages for people."""
