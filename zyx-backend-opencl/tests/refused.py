"""What pyopencl raises where a driver refuses."""

from zyx_backend_opencl import driver


class Refused(driver.ClError):
    """An error with a code of OpenCL's.

    Args:
        code: Negative.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"refused with {code}")
        self._code = code

    @property
    def code(self) -> int:
        return self._code
