"""The change stream: whole transactions of a source, in commit order. Does not know the upqueries."""
