"""What devices of backends have in common: whose programs they take, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from zyx.backend.device import Device
from zyx.drivers.device_program import DeviceProgram
from zyx.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.backend.device import Launch, Program
    from zyx.backend.info import DeviceInfo
    from zyx.backend.pool import MemoryPool
    from zyx.backend.rates import Rates

ProgramT = TypeVar("ProgramT", bound=DeviceProgram)


class DriverDevice(Device, Generic[ProgramT]):
    """A device whose programs are of classes that the backend derives from `DeviceProgram`.

    Args:
        name: Such as ``acme:0``.
        pool: Its memory.
        info: What it is and can do.
    """

    #: What its programs are, where devices of others work on the same pool.
    program_type: ClassVar[type[DeviceProgram]] = DeviceProgram

    def __init__(self, name: str, pool: MemoryPool, info: DeviceInfo) -> None:
        super().__init__(name, pool)
        self._info = info
        self._is_open = True

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def take_rates(self, rates: Rates) -> None:
        self._info = self._info.with_rates(rates)

    @property
    def in_flight(self) -> int:
        """How many pieces of work are not known to be done; by default none, as where launches are done at once."""
        return 0

    @property
    def free_compute(self) -> float:
        """FLOP/s that are left: shared out between the work in flight and one piece more."""
        return self._info.flops_per_s / (1 + self.in_flight)

    def release(self, program: Program) -> None:
        """Free `program`."""
        self.own(program).release()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.stop()

    def stop(self) -> None:  # devices whose work is done when a call returns have nothing to wait for
        """Wait for all work. Called once, by `close`; nothing is launched any more."""

    def own(self, program: Program) -> ProgramT:
        """Return `program`, checked.

        Raises:
            LaunchError: It is another device's, or was released, or the device is closed.
        """
        if not isinstance(program, self.program_type) or program.pool is not self.memory_pool:
            raise LaunchError(f"{program.name} is a program of another device than {self.name}")
        if program.is_released:
            raise LaunchError(f"{program.name} was released before, on {self.name}")
        if not self._is_open:
            raise LaunchError(f"{program.name} was launched on {self.name}, which is closed")
        return program  # type: ignore[return-value]  # such programs are

    def check_capture(self, launches: Iterable[Launch]) -> None:
        """Raise `LaunchError` unless `launches` can be captured: of programs of this device, none a sequence itself."""
        for launch in launches:
            if self.own(launch.program).is_sequence:
                raise LaunchError(f"{launch.program.name} is a captured sequence, and cannot be part of another")
