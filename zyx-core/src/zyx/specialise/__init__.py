"""What changes from run to run: structures with holes, what was in them, and graphs that are given it."""
