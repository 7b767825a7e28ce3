"""Many keys at once: bulk fills by Spark or without it, and the warm-up."""
