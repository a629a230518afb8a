"""Gradients: a rule for every kind of node, reverse accumulation, and tapes that keep history.

Start reading at `gradient`; the rules are in `zyx.autograd.rules`, one table a family.
"""

from zyx.autograd.gradient import gradient
from zyx.autograd.rules import SupportsBackward
from zyx.autograd.tape import Tape
from zyx.autograd.transform import grad, value_and_grad

__all__ = ["SupportsBackward", "Tape", "grad", "gradient", "value_and_grad"]
