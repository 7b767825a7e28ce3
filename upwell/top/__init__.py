"""`upwell top`: a running proxy in a terminal, as it goes on."""
