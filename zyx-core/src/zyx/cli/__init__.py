"""The command line, one file a command; `main` has the list of them.

A command is a module with two functions: ``configure(parser)`` declares its arguments, ``run(arguments, console)``
does it and returns the exit status.
"""
