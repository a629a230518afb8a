"""Code is linked wherever the system finds room for it, also far from what it reads, and leaves no trace."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zyx_backend_c.driver import Compiler

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


def test_code_that_is_dropped_leaves_nothing_behind_and_the_rest_stays_callable() -> None:
    compiler = Compiler()
    image = compiler.compile("define i64 @f(i64 %x) {\n%y = mul i64 %x, 3\nret i64 %y\n}\n")

    def used() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    kept, sizes = [], []
    for number in range(1200):
        code = compiler.link(image, ("f",), {})
        if number < 200 and number % 50 == 0:
            kept.append(code)
        if number % 100 == 0:
            sizes.append(used())
    assert sizes[-1] - sizes[3] < 3 << 20  # 800 libraries; 10 KB of each are 8 MB
    assert [ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.addresses["f"])(5) for code in kept] == [15] * 4
