"""The operators that keep state: one file each. Filter, key and projection are fused into them as compiled
functions."""
