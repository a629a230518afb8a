"""What every driver's backend must do beside what the kit tests: its card, its devices, and the bytes it moves.

A backend's own tests import these, and its ``conftest.py`` the fixtures, and say in a `Card` what is its own. They are
not in the kit, since backends are tested on the oldest core that they run on, whose kit is as old.
"""
