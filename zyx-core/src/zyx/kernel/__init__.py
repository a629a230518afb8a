"""What a device runs in one launch: a list of operations; `data` has the grammar and what it means."""
