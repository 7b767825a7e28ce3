"""What listeners and engine know of each other: types and protocols alone."""
