"""Holes and how they are filled: who waits, what is asked, and when an answer may be inserted."""
