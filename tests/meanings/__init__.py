"""What functions of zyx mean, once: each in a row beside NumPy, with what it may be given.

    row            what a row says
    formulas       what NumPy has no function of
    elementwise    functions element by element, of one operand and of two
    activations    those of networks
    losses         losses of two tensors
    reductions     reductions, scans and orders along axes
    movement       elements that are moved
    slopes         differences, which gradients are held against

Random programs draw from these rows (`fuzz`), and the tests of functions hold each row against NumPy by itself: its
values in every dtype, as a function and as a method, its slope beside differences of its meaning
(zyx-core/tests/functions/test_rows.py). A new function is one row.
"""
