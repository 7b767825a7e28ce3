"""From a SELECT to a plan: arrangements with the SQL that fills them, and the reader above. Pure: no I/O."""
