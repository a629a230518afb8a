"""From a scheduled nest to the linear form of a kernel, as the kinds of its ranges say; `lower` begins."""
