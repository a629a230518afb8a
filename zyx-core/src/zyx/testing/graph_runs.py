"""Run random graphs on a device, and compare them with the oracle.

    runner = GraphRunner(runtime, "c:0")
    runner.run(seed, options)

Every graph is computed several times over other values, so that its plan is made, taken from the cache, and
captured where the device can; its outputs are asked for together, or one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.runtime.handle import Handle
from zyx.testing.choices import Seeded
from zyx.testing.compare import assert_within
from zyx.testing.graphs import random_case

if TYPE_CHECKING:
    from zyx.graph import Node
    from zyx.runtime.runtime import Runtime
    from zyx.testing.choices import Choices
    from zyx.testing.graphs import GraphCase, GraphOptions
    from zyx.testing.values import Array


class GraphRunner:
    """Runs random graphs on a device.

    Attributes:
        runtime: What computes them.
        device: Full name of the device.
        graphs: How many different ones were run.
        outputs: How many outputs were compared.
    """

    def __init__(self, runtime: Runtime, device: str) -> None:
        self.runtime = runtime
        self.device = runtime.device_name(device)
        self.graphs = 0
        self.outputs = 0

    def run(self, seed: int, options: GraphOptions, repeats: int = 2) -> None:
        """Run the graph of a seed `repeats` times.

        Raises:
            AssertionError: An output is not what it has to be; a note has the graph and the seed.
        """
        self.graphs += 1
        for turn in range(repeats):
            self._run_once(seed, options, turn)

    def _run_once(self, seed: int, options: GraphOptions, turn: int) -> None:
        choices = Seeded(seed)
        case = self.case(choices, options, turn)
        text = str(case)
        try:
            self.check(case, one_by_one=choices.chance(25))
        except BaseException as error:
            error.add_note(f"seed {seed}, run {turn + 1}, on {self.device}, {options}:\n{text}")
            raise

    def case(self, choices: Choices, options: GraphOptions, turn: int = 0) -> GraphCase:
        """Return a random graph whose leaves lie on the device; other turns have the same graph over other values."""

        def leaf(array: Array) -> tuple[Node, Array]:
            turned = np.roll(array.ravel(), turn).reshape(array.shape)
            return self.runtime.upload(turned, self.device), turned

        return random_case(choices, options, self.device, self.runtime.graph, leaf)

    def check(self, case: GraphCase, *, one_by_one: bool = False) -> None:
        """Compute the outputs of a graph, together or one by one, and compare them with the oracle."""
        references = case.reference()
        names = [repr(node) for node in case.outputs]
        handles = [Handle.of(node, self.runtime) for node in case.outputs]
        for some in [[handle] for handle in handles] if one_by_one else [handles]:
            self.runtime.realize(some)
        for handle, reference, name in zip(handles, references, names, strict=True):
            self.outputs += 1
            assert_within(self.runtime.download(handle), reference, f"output {name}")
