"""Backends: found among the installed packages, checked, opened, and chosen from.

    state      what may become of a backend, and the report about one
    discover   which installed packages declare a backend
    check      whether what a package declares is a backend of this version
    check_info whether the record of a device is one that others can compute with
    watchdog   where their code is run from, whatever it does
    diagnosis  what an exception of theirs means
    manager    loading: one backend at a time, every failure kept with its step and reason
    opening    pools and devices, opened when they are first needed
    choose     the device that a name means, or the one to use where none is named
    words      what others say, as text that can be shown
    describe   all this in words

Two steps: *loading* imports the plugin modules, which are cheap; *opening* calls their hooks, which load drivers.
Neither happens at import. What was asked for by name fails loudly, with the reason that was kept; what was guessed
fails quietly, and is shown by ``zyx devices``.
"""
