"""One client's session: what it sends, what is answered here, and what passes to MySQL."""
