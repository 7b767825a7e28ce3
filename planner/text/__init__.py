"""SQL as text and tokens: scanning, parsing, lifting constants. Knows no schema."""
