"""What of a session an answer depends on: variables, time zones, modes."""
