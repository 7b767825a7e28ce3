"""Values, schema, expressions and errors. Pure: no I/O, nothing above it is imported."""
