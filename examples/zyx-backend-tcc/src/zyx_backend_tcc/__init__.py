"""zyx on one processor core, through the Tiny C Compiler."""
