"""Mixed precision: products in a short float type, with losses scaled so that gradients fit it.

`autocast` is also `zyx.autocast`. Start reading at `zyx.tensor.autocast` and `zyx.optim.scaling`.
"""

from zyx.optim.scaling import GradScaler
from zyx.tensor.autocast import TABLE, autocast, is_autocast_enabled

__all__ = ["TABLE", "GradScaler", "autocast", "is_autocast_enabled"]
