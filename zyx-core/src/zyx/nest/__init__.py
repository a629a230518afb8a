"""What a kernel computes: statements over named ranges, without how; `data` begins."""
