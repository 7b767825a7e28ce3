"""The engine: arrangements, readers, fills and changes. Synchronous, on one thread, no I/O: messages in, effects
out."""
