"""A mock chip for the tests: what TT-Metalium needs to open one, without hardware and without its compiler.

TT-Metalium makes a mock chip of a description of a cluster, and opens it as it does a card: memory is laid out,
programs are made, and nothing is sent. When it opens one it compiles its firmware, by SFPI, which no package has. A
stand-in answers in its place: the firmware that it "links" is what the wheel of `ttnn` has compiled, for cards of
another configuration, which does not matter to a chip that runs nothing. What it was called with is kept: by the same
folders and macros another compiler can read the headers (`kernel_flags`).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

#: One Blackhole on a board of the kind p150, as TT-Metalium's UMD describes clusters. The number of the board says its
#: kind: 0x40 in its upper bits. Two cores for Ethernet and one PCIe are switched off, as on boards.
BOARD: Final = (0x40 << 36) | 1
CLUSTER: Final = f"""\
arch: {{0: Blackhole}}
chips: {{}}
ethernet_connections: []
chips_with_mmio: [0: 0]
harvesting: {{0: {{noc_translation: true, harvest_mask: 0, dram_harvesting_mask: 0, eth_harvesting_mask: 288, \
pcie_harvesting_mask: 2}}}}
chip_to_boardtype: {{0: p150}}
chip_to_bus_id: {{0: 0x0000}}
chip_unique_ids: {{0: {BOARD}}}
boards: [[{{board_id: {BOARD}}}, {{board_type: p150}}, {{chips: [0]}}]]
"""

#: The file with the arguments of all calls of the compiler, one a line.
CALLS: Final = "calls"

#: Says which version it is, makes empty objects of C++, and of a link the firmware of that name: brisc.1234.elf is that
#: of the folder brisc. Firmware of a Blackhole is in a folder with one of a core for memory (drisc).
COMPILER: Final = """\
#!/bin/sh
echo "$*" >> {calls}
case " $* " in *" --version "*) echo "riscv-tt-elf-g++ (tenstorrent/sfpi:{version}[{build}])"; exit 0;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
name=$(basename "$out"); name=${{name%%.*}}
case $out in
*.elf) for folder in {firmware}/*/drisc/..; do cp "$folder/$name/$name.elf" "$out" && exit 0; done; exit 1;;
*) : > "$out"; echo "$out: $out" > "${{out%.o}}.d";;
esac
"""


def environment(folder: Path) -> dict[str, str]:
    """Write the files that a mock chip needs to `folder`, which is empty, and return the variables that name them."""
    spec = find_spec("ttnn")
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    root, compiler = folder / "root", folder / "root" / "runtime" / "sfpi" / "compiler" / "bin" / "riscv-tt-elf-g++"
    compiler.parent.mkdir(parents=True)
    (root / "runtime" / "hw").symlink_to(package / "runtime" / "hw")
    for entry in package.iterdir():
        if entry.name != "runtime":
            (root / entry.name).symlink_to(entry)
    version = package / "tt_metal" / "sfpi-version"
    said = dict(line.split("=", 1) for line in version.read_text("utf-8").splitlines() if "=" in line)
    compiler.write_text(
        COMPILER.format(
            version=said["sfpi_version"].strip("'"),
            build=said["sfpi_build"].strip("'"),
            firmware=package / "tt_metal" / "pre-compiled",
            calls=folder / CALLS,
        ),
        encoding="utf-8",
    )
    compiler.chmod(0o755)
    cluster = folder / "cluster.yaml"
    cluster.write_text(CLUSTER, encoding="utf-8")
    return {
        "TT_METAL_MOCK_CLUSTER_DESC_PATH": str(cluster),
        "TT_METAL_SLOW_DISPATCH_MODE": "1",
        "TT_METAL_RUNTIME_ROOT": str(root),
        "TT_METAL_CACHE": f"{folder / 'cache'}/",
        "TT_METAL_LOGS_PATH": str(folder),
    }


def kernel_flags(folder: Path) -> list[str]:
    """Return folders of headers and macros for kernels that move data, of a chip that was opened in `folder`."""
    calls = (folder / CALLS).read_text("utf-8").splitlines()
    firmware = next(line for line in calls if "COMPILE_FOR_NCRISC" in line and " -c " in line)
    flags = [word for word in firmware.split() if word.startswith(("-I", "-D"))]
    return ["-DKERNEL_BUILD" if word == "-DFW_BUILD" else word for word in flags]
