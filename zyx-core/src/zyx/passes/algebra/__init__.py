"""The identities that `simplify_algebra` applies, by kind of operand."""
