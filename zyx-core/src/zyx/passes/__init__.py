"""Transformations of the linear IR, one a file: each is a function from kernel to kernel, and needs no other."""
