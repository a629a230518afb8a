"""Records of devices, as files: what schedules and passes are chosen from, without the device.

    python tests/replay/recorded.py c "AVX-512 processor"       writes devices/avx-512-processor.json

Of an AVX2 processor there is the record of the one with AVX-512, with half its vectors and registers; of an H200 that
of an H100, with memory of 4.8 TB/s. The driver and its version are left out: nothing is chosen by them.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.backend.info import Capability, DeviceInfo
from zyx.ops import BinaryOp, ReduceOp, UnaryOp, binary_ops, reduce_ops, unary_ops

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from enum import Enum

    from zyx.dtype import DType

FOLDER: Final = Path(__file__).parent / "devices"


def text_of(info: DeviceInfo) -> str:
    """Return a record as JSON; operations that are all there are, are ``"all"``."""
    fields = {
        field.name: getattr(info, field.name)
        for field in dataclasses.fields(info)
        if field.name not in {"driver", "rates", "capabilities"}
    }
    fields["swaps"] = sorted(dtype.name for dtype in info.swaps)
    fields["wmma"] = [[list(sizes), dtype.name] for sizes, dtype in info.wmma]
    fields["capabilities"] = {
        dtype.name: {
            "unary": _names(capability.unary, unary_ops(dtype)),
            "binary": _names(capability.binary, binary_ops(dtype)),
            "atomic": _names(capability.atomic, reduce_ops(dtype)),
            "lanes": list(capability.lanes),
        }
        for dtype, capability in info.capabilities.items()
    }
    return json.dumps(fields, indent=1) + "\n"


def info_of(text: str) -> DeviceInfo:
    """Return the record that `text_of` wrote."""
    fields: dict[str, Any] = json.loads(text)
    fields["swaps"] = frozenset(dtypes.BY_NAME[name] for name in fields["swaps"])
    fields["wmma"] = tuple((tuple(sizes), dtypes.BY_NAME[name]) for sizes, name in fields["wmma"])
    capabilities = {dtypes.BY_NAME[name]: given for name, given in fields.pop("capabilities").items()}
    fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return DeviceInfo(
        driver="recorded",
        capabilities={dtype: _capability(dtype, given) for dtype, given in capabilities.items()},
        **fields,
    )


def recorded() -> dict[str, DeviceInfo]:
    """Return the records that are kept, by their names."""
    return {path.stem: info_of(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def _names(found: AbstractSet[Enum], every: AbstractSet[Enum]) -> str | list[str]:
    return "all" if found == every and found else sorted(op.value for op in found)


def _capability(dtype: DType, given: dict[str, Any]) -> Capability:
    def ops(kind: type[Any], part: str, every: AbstractSet[Any]) -> frozenset[Any]:
        return frozenset(every) if given[part] == "all" else frozenset(kind(name) for name in given[part])

    return Capability(
        ops(UnaryOp, "unary", unary_ops(dtype)),
        ops(BinaryOp, "binary", binary_ops(dtype)),
        ops(ReduceOp, "atomic", reduce_ops(dtype)),
        tuple(given["lanes"]),
    )


def main(device: str, name: str) -> None:
    """Record a device of this machine."""
    from zyx.testing.opening import open_runtime

    runtime = open_runtime(device)
    path = FOLDER / f"{name.lower().replace(' ', '-')}.json"
    path.write_text(text_of(dataclasses.replace(runtime.device(runtime.default_device).info, model=name)), "utf-8")
    runtime.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
