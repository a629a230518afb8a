"""The two forms of a kernel: the loop nest that schedules transform, and the linear IR that backends are given."""
