"""The kit that says whether a backend keeps the contract, and what property tests are made of.

    pytest --pyargs zyx.testing --zyx-device NAME          the conformance suite, on one device or several
    pytest --pyargs zyx.testing --zyx-thorough ...         more examples: minutes instead of seconds
    pytest --pyargs zyx.testing --zyx-shares NAME ...      of combinations of parameters a share, drawn by NAME

It needs the extra ``zyx-core[testing]``. What it is made of:

    zyx_pytest      options, header and summary of pytest; a module beside `zyx`
    suite           the tests, a file a subject; each is a rule that every backend keeps
    parts           which of them are about kernels, which about drivers, and which about core around them
    graphs          random graphs, and what their outputs have to be (`tolerance` says how exactly)
    graph_runs      running them on a device
    shrink          the smallest part of a graph that still fails
    nests           the loop nests of random graphs
    schedules       random schedules of these
    kernels         random kernels of the linear IR
    patterns        kernels that are just what a rule looks for
    returns         which of its results a function returned: the rules that fired
    fused           the interpreter as a machine whose multiply-adds round once
    tuned           the kernels of random graphs, searched by measuring
    faults          let call number k of a device or pool fail
    opening         a runtime for one device, of an installed backend or of one that is being written
    launching       a kernel on a device and on the interpreter
    paper           devices on paper: any numbers in `DeviceInfo`, and the interpreter to run what is scheduled for them

A backend ships a list of its expected failures (``--zyx-xfails FILE``, or ``zyx_xfails = FILE`` in its settings of
pytest): a line for each, ``PATTERN: reason``, where the pattern is the test's name in the kit, such as
``test_casts.py::*f64*``, and ``*`` stands for any text. The list is strict: an expected failure that passes is a
failure, and so is a pattern that matches nothing.

Every random test has seeds: a failure names the one, ``--zyx-seed`` shifts them all.
"""
