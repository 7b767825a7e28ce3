"""Arrangements: what is held by key, its memory, and what was let go and is still to be taken apart."""
