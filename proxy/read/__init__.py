"""One read of a cache: a hit, a hole that is filled, or MySQL's answer."""
