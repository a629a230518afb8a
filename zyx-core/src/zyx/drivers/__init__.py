"""What authors of backends may reuse: a caching pool, arguments, sequences, caches on disk, what libraries share."""
