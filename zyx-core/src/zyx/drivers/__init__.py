"""What authors of backends may reuse: faults, caching pools, arguments, sequences, caches, what libraries share."""
