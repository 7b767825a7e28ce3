"""The parsed query with names, types and origins resolved, and the plan as a value."""
