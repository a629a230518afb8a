"""Tables of modules: `zyx.nn.summary`, and what notebooks show of a module."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("interpreter")


class Net(nn.Module):
    """A list of layers, one of them used twice, and a buffer."""

    def __init__(self):
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 2)]
        self.inner = nn.Sequential(nn.ReLU(), nn.BatchNorm1d(2))
        self.scale = zyx.ones(2)

    def forward(self, x):
        return self.inner(self.layers[1](self.layers[0](self.layers[0](x)))) * self.scale


def test_each_layer_has_a_row_with_what_it_gave_and_has():
    found = nn.summary(Net(), zyx.zeros(3, 4))
    rows = {layer.name: layer for layer in found.layers}
    assert list(rows) == ["", "layers.0", "layers.1", "inner", "inner.0", "inner.1"]
    assert [layer.depth for layer in found.layers] == [0, 1, 1, 1, 2, 2]
    assert [layer.label for layer in found.layers] == ["", "layers.0", "layers.1", "inner", "0", "1"]
    assert rows["layers.0"].outputs == [("float32", (3, 4))]
    assert (rows["layers.0"].calls, rows["layers.1"].calls) == (2, 1)
    assert (rows["layers.0"].parameters, rows["layers.0"].nbytes) == (20, 80)
    assert (rows[""].parameters, rows[""].nbytes, rows[""].output_bytes) == (0, 8, 24)
    assert (rows["inner.1"].parameters, rows["inner.1"].outputs) == (4, [("float32", (3, 2))])
    net = Net()
    assert found.parameters == found.trained == sum(each.size for each in net.parameters())
    assert found.nbytes == sum(each.nbytes for each in [*net.parameters(), *net.buffers()])
    assert found.flops is None


def test_the_text_is_a_table_with_totals():
    lines = str(nn.summary(Net(), zyx.zeros(3, 4))).splitlines()
    assert lines[0].split("  ")[0] == "LAYER"
    assert lines[2].startswith("  layers.0: Linear, 2 calls  float32 (3, 4)")
    assert lines[5].startswith("    0: ReLU ")
    assert lines[-1] == "34 parameters, 34 of them trained; with buffers 168 B"


def test_nothing_is_computed_and_modes_gradients_and_buffers_stay_as_they_were():
    net = Net()
    net.inner.eval()
    means = net.inner[1].running_mean.numpy().copy()
    with zyx.profile() as kernels:
        nn.summary(net, zyx.zeros(3, 4))
    assert kernels.kernels() == []
    assert [module.training for module in net.modules()] == [True, True, True, False, False, False]
    assert np.array_equal(net.inner[1].running_mean.numpy(), means)
    assert all(not module._hooks for module in net.modules())
    with pytest.raises(zyx.errors.ShapeError):
        nn.summary(net, zyx.zeros(3, 5))
    assert all(not module._hooks for module in net.modules())
    assert net.layers[0].training


def test_without_inputs_there_are_parameters_alone():
    found = nn.summary(Net())
    assert found.table()[0] == ("LAYER", "PARAMETERS", "BYTES")
    assert found.parameters == 34


def test_frozen_and_shared_parameters_are_counted_as_such():
    shared = nn.Linear(3, 3)
    other = nn.Linear(3, 3, bias=False)
    other.weight = shared.weight
    net = nn.Sequential(shared, other)
    shared.bias.requires_grad_(False)
    found = nn.summary(net)
    assert (found.parameters, found.trained) == (12, 9)


def test_lazy_layers_are_counted_after_the_call():
    found = nn.summary(nn.Sequential(nn.LazyLinear(5), nn.ReLU()), zyx.zeros(2, 7))
    assert found.parameters == 40
    assert found.layers[1].kind == "Linear" or found.layers[1].kind == "LazyLinear"


def test_operations_are_those_of_the_kernels_of_each_layer():
    found = nn.summary(nn.Sequential(nn.Linear(128, 16, bias=False), nn.ReLU()), zyx.zeros(32, 128), flops=True)
    linear, relu = found.layers[1:]
    assert 2 * 32 * 128 * 16 <= linear.flops <= 1.1 * 2 * 32 * 128 * 16
    assert relu.flops == 32 * 16
    assert found.flops == linear.flops + relu.flops
    assert found.table()[0][-1] == "FLOP"
    assert "operations on floats" in str(found)


def test_arguments_by_name_and_results_of_several_tensors_are_taken():
    class Two(nn.Module):
        def forward(self, x, *, y):
            return {"sum": x + y, "pair": (x, y.astype(zyx.int32))}

    found = nn.summary(Two(), zyx.zeros(2), y=zyx.zeros(2))
    assert sorted(found.layers[0].outputs) == [("float32", (2,)), ("float32", (2,)), ("int32", (2,))]


def test_what_cannot_be_summarised_is_refused():
    with pytest.raises(ArgumentError, match="a module is wanted, not list"):
        nn.summary([nn.ReLU()])
    with pytest.raises(ArgumentError, match="give what the module is called with"):
        nn.summary(nn.ReLU(), flops=True)


def test_a_notebook_shows_the_tensors_of_a_module_and_a_summary(well_formed):
    net = Net()
    net.layers[0].weight.requires_grad_(False)
    table = well_formed(net._repr_html_())
    assert table[0] == ["NAME", "WHAT", "SHAPE", "DTYPE", "DEVICE", "BYTES"]
    assert ["layers.0.weight", "parameter, not trained", "(4, 4)", "float32", "interpreter:0", "64 B"] in table
    assert ["scale", "buffer", "(2,)", "float32", "interpreter:0", "8 B"] in table
    assert "Net: 34 parameters; with buffers 168 B" in net._repr_html_()
    rows = well_formed(nn.summary(net, zyx.zeros(3, 4))._repr_html_())
    assert [row[0].strip() for row in rows[1:3]] == ["Net", "layers.0: Linear, 2 calls"]


def test_names_are_escaped(well_formed):
    net = nn.ModuleDict({"<script>": nn.Linear(1, 1)})
    assert well_formed(net._repr_html_())[1][0] == "<script>.weight"
    assert "<script" not in net._repr_html_()
    assert "<script" not in nn.summary(net)._repr_html_()
