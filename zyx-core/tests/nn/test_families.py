"""Layers that are made by rank are classes as any other."""

import copy
import inspect
import pickle

import pytest

import zyx
from zyx import nn

NAMES = [
    *(f"{kind}Pad{n}d" for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular") for n in (1, 2, 3)),
    *(f"{kind}{n}d" for kind in ("AdaptiveMaxPool", "MaxUnpool", "LPPool") for n in (1, 2, 3)),
    "FractionalMaxPool2d",
    "LazyLinear",
    *(f"Lazy{kind}{n}d" for kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for n in (1, 2, 3)),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_class_is_found_by_its_name_and_says_what_it_is(name):
    layer = getattr(nn, name)
    assert layer.__name__ == layer.__qualname__ == name
    assert getattr(inspect.getmodule(layer), name) is layer
    assert layer.__doc__ != layer.__mro__[1].__doc__
    assert pickle.loads(pickle.dumps(layer)) is layer
    if name[-2:] in ("1d", "2d", "3d") and not name.startswith("Lazy"):
        assert layer.ndim == int(name[-2])


def test_instances_are_kept_and_classes_inherited_from():
    x = zyx.ones(1, 2, 2)
    pads = nn.ConstantPad2d((1, 0, 0, 2), 3.0)
    for again in (pickle.loads(pickle.dumps(pads)), copy.deepcopy(pads)):
        assert again(x).tolist() == pads(x).tolist() == [[[3, 1, 1], [3, 1, 1], [3, 3, 3], [3, 3, 3]]]

    class Mine(nn.ReflectionPad1d):
        """One that is wider."""

    assert repr(Mine(1)) == "Mine((1, 1))"
    assert Mine(1)(zyx.Tensor([[1.0, 2.0, 3.0]])).tolist() == [[2.0, 1.0, 2.0, 3.0, 2.0]]
    learned = nn.LazyConv2d(3, 2)
    learned(zyx.ones(1, 5, 4, 4))
    assert type(learned) is nn.Conv2d
