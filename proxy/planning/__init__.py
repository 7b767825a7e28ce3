"""Planning in a process of its own, and what MySQL announces of a query's columns."""
