"""Code is linked wherever the system finds room for it, also where other libraries have left little room nearby."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lays out the address space by Linux's rules")

#: Fill every gap but one page, so that the second piece of memory asked for lies gigabytes away from the first.
FAR_APART = """
import ctypes, mmap
from zyx_backend_c.driver import Compiler

TEXT = '''
@table = private unnamed_addr constant [4096 x float] [LIST]
define void @f(ptr %out, i64 %i) {
  %place = getelementptr float, ptr @table, i64 %i
  %value = load float, ptr %place
  store float %value, ptr %out
  ret void
}
'''.replace("LIST", ", ".join(f"float {number}.0" for number in range(4096)))

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
page, apart = mmap.PAGESIZE, 6 << 30
MAP_NORESERVE = 0x4000

def reserve(nbytes):
    address = libc.mmap(None, nbytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    assert address != ctypes.c_void_p(-1).value
    return address

compiler = Compiler()
image = compiler.compile(TEXT)
wall = reserve(apart)
while reserve(page) > wall:  # everything above it
    pass
libc.munmap(wall + apart - page, page)

code = compiler.link(image, ("f",), {})
result = ctypes.c_float()
ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.addresses["f"])(ctypes.addressof(result), 4095)
print(result.value)
"""


def test_code_may_lie_far_from_what_it_reads() -> None:
    done = subprocess.run([sys.executable, "-c", FAR_APART], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "4095.0\n"), done.stderr
