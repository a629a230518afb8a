"""Random programs over the public API of `zyx`, held against NumPy.

    python tests/random_programs.py --device c --programs 20000 --seed 1 --deadline 3000
    python tests/random_programs.py --device c --varying 100    only programs that are run with several numbers

A program is drawn from a table of calls, each beside its meaning in NumPy; values are shared among the calls. It is run
as it stands, under `zyx.jit` with the same and with other inputs, with gradients against differences of the meaning in
float64, and in two threads at once; some are run several times, with other numbers, starts and lengths. A wrong result,
or an error where none is due, is reported with its seed and with the smallest part of the program that shows it, as
text of Python. Calls that are not valid must raise errors of zyx.

    program     calls in a row, what they mean, and how exactly results are known
    drawing     choosing operands and numbers
    rows        calls of rows of the table of meanings (`meanings`)
    rows_*      families of rows, and calls that depend on shapes in ways that no row says
    invalid     calls that have to be refused
    series      programs that differ in numbers, starts and lengths alone
    running     running a program in several ways
    shrinking   the smallest part that fails
    campaign    many programs, one after the other
"""
