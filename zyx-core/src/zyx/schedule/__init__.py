"""From graph to loop nest to kernel.

    prepare         rewrite the graph for one device
    sorting         hand-written kernels for what is put in order, which that puts into the graph
    partition       divide it into kernels, after `materialise` has chosen what is kept between them
    build           write the nest of a kernel: what it computes, over named ranges
    moves           the language of schedules: nests into equal nests
    heuristics      a good schedule at once, without measuring
    lower           turn the nest into the linear form, as the kinds of its ranges say

Each step takes what the one above it returns.
"""
