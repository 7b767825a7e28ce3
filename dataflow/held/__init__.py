"""What is held: entries, arrangements and readers, their memory and their eviction."""
