"""Memory that a library works in while one of its programs runs: one at a time does, since launches have one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.drivers.faults import Cause, Fault

if TYPE_CHECKING:
    from zyx_backend_cuda.driver import Address
    from zyx_backend_cuda.memory import CudaPool


class Workspace:
    """So many bytes of a device, allocated when they are first asked for.

    Attributes:
        nbytes: How many.
    """

    def __init__(self, pool: CudaPool, nbytes: int) -> None:
        self.nbytes: Final = nbytes
        self._pool = pool
        self._address: Address | None = None

    def address(self) -> Address:
        """Return where it is. The context must be current.

        Raises:
            Fault: There is no memory, also after the pool gave back what it keeps.
        """
        session = self._pool.session
        if self._address is None:
            try:
                self._address = session.allocate(self.nbytes)
            except Fault as error:
                if error.cause is not Cause.MEMORY:
                    raise
                self._pool.trim()
                self._address = session.allocate(self.nbytes)
        return self._address

    def close(self) -> None:
        """Free it; nothing may work in it."""
        address, self._address = self._address, None
        if address is not None:
            self._pool.session.free(address)
