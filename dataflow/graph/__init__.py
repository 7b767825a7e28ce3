"""From a plan to the graph: arrangements and readers, shared where plans are alike."""
