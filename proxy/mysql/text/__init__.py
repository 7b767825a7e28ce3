"""Statements as texts: of which kind they are, and which cache's query they are."""
