"""MySQL's protocol as bytes: packets, rows, answers, compression."""
