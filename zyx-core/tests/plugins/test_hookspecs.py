"""The hook specifications and their examples."""

import inspect
import re
import textwrap
import types
from collections.abc import Callable

import pytest

from zyx import hookspecs
from zyx.backend.library import Gemm
from zyx.builtin.host import HostPool
from zyx.builtin.plugin import BUILT_IN
from zyx.dtype import float32
from zyx.errors import UnsupportedError
from zyx.plugins.check import HOOKS, check_hooks, identify
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import MACHINES, kernels_of

SPECS: dict[str, Callable[..., object]] = {name: getattr(hookspecs, name) for name in sorted(HOOKS)}


def example_of(name: str) -> types.ModuleType:
    """Run the example in a specification's docstring; return it as a module."""
    text = inspect.getdoc(SPECS[name])
    assert text is not None
    found = re.search(r"Example::\n\n((?:    .*\n?|\n)+)", text)
    assert found is not None
    module = types.ModuleType(f"example_of_{name}")
    exec(compile(textwrap.dedent(found[1]), module.__name__, "exec"), vars(module))
    return module


def test_the_hooks_are_those_that_are_promised() -> None:
    promised = (
        "backend_info config_section may_have_devices memory_pools devices library_kernels kernel_passes collectives "
        "collectives_identifier"
    )
    assert set(HOOKS) == {f"zyx_{name}" for name in promised.split()}


@pytest.mark.parametrize("name", sorted(HOOKS))
def test_every_example_is_complete_and_implements_its_hook(name: str) -> None:
    module = example_of(name)
    implemented = getattr(module, name)
    assert implemented.zyx_impl is not None
    assert set(inspect.signature(implemented).parameters) <= set(inspect.signature(SPECS[name]).parameters)


def test_the_examples_together_are_a_backend_that_works() -> None:
    backend = types.ModuleType("toy")
    for name in HOOKS:
        setattr(backend, name, getattr(example_of(name), name))
    info = identify(backend, "toy")
    hooks = check_hooks(backend, "toy")
    assert info.name == "toy"
    section = hooks.zyx_config_section()[0]()
    assert section.queues == 2
    config = hookspecs.BackendConfig(section, 1, None)
    assert hooks.zyx_memory_pools(config=config)[0][0].free_bytes == 1 << 20
    (device,) = hooks.zyx_devices(config=config, pools={"host": HostPool(capacity_bytes=64)})[0]
    assert device.name == "toy:0"
    assert hooks.zyx_may_have_devices() == [False]
    (library,) = hooks.zyx_library_kernels(device=device)[0]
    with pytest.raises(UnsupportedError, match=r"toyblas 1\.0 has no Gemm"):
        library.prepare(Gemm(1, 2, 3, 4, float32, float32))
    (move,) = hooks.zyx_kernel_passes(device=device)[0]
    nest = next(
        nest
        for seed in range(20)
        for kernel in kernels_of(random_case(Seeded(seed), GraphOptions(most_nodes=3)), MACHINES[0])[0]
        for nest in kernel.nests
        if list(move.choices(nest))
    )
    others = [move.apply(nest, choice) for choice in move.choices(nest)]
    assert all(other.params == nest.params and other is not nest for other in others)
    assert hooks.zyx_collectives_identifier(devices=[device], is_first=True) == [b"toy group 1"]
    group = {"ranks": [0], "size": 3, "identifier": b"toy group 1", "timeout_s": 1.0}
    with pytest.raises(UnsupportedError, match="toy:0 cannot reach 3 others"):
        hooks.zyx_collectives(devices=[device], **group)


def test_what_is_built_in_passes_the_same_checks() -> None:
    for name, plugin in BUILT_IN.items():
        identify(plugin, name)
        check_hooks(plugin, name)
