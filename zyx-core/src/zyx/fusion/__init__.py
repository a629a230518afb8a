"""From a graph to loop nests, one a kernel.

    prepare         rewrite the graph for one device
    partition       divide it into kernels, after `materialise` has chosen what is kept between them
    arrange         put them in order, with those side by side that one launch can hold
    build           write the nest of a kernel: what it computes, over named ranges

Kernels that are written by hand (`zyx.kernels`) are put into the graph by `prepare`.
"""
