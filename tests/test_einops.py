"""einops takes tensors, on the default device, and gives of them what it gives of NumPy's arrays."""

import subprocess
import sys

import numpy as np
import pytest

import zyx

einops = pytest.importorskip("einops", reason="einops, whose functions these tests call, is not installed")
import zyx.einops  # noqa: E402

IMAGES = np.random.default_rng(1).standard_normal((2, 4, 6, 3)).astype(np.float32)

CALLS = {
    "rearrange": lambda x: einops.rearrange(x, "b h w c -> b c h w"),
    "split and join": lambda x: einops.rearrange(x, "b (h p) (w q) c -> (b h w) (p q c)", p=2, q=3),
    "flatten": lambda x: einops.rearrange(x, "b ... -> b (...)"),
    "list": lambda x: einops.rearrange([x, x + 1], "n b h w c -> b (n h) w c"),
    "mean": lambda x: einops.reduce(x, "b (h p) (w q) c -> b h w c", "mean", p=2, q=2),
    "max": lambda x: einops.reduce(x, "b h w c -> b c", "max"),
    "min": lambda x: einops.reduce(x, "b h w c -> b 1 1 c", "min"),
    "sum": lambda x: einops.reduce(x, "b h w c ->", "sum"),
    "prod": lambda x: einops.reduce(x, "b h w c -> h w", "prod"),
    "repeat": lambda x: einops.repeat(x, "b h w c -> b (h 2) (w q) c", q=3),
    "new axis": lambda x: einops.repeat(x, "b h w c -> b n h w m c", n=2, m=5),
    "parse_shape": lambda x: sorted(einops.parse_shape(x, "b h _ c").items()),
}
LATER = {
    "einsum": lambda x: einops.einsum(x, x, "b h w c, b h w d -> b c d"),
    "einsum of long names": lambda x: einops.einsum(x, "batch h w colour -> w batch"),
    "pack": lambda x: einops.pack([x, x[:, :, 0]], "b h * c")[0],
    "pack and unpack": lambda x: einops.unpack(*einops.pack([x, x[:, 0]], "b * c"), "b * c")[1],
}


@pytest.mark.parametrize("name", [*CALLS, *LATER])
def test_tensors_give_what_arrays_give(name: str) -> None:
    function = {**CALLS, **LATER}[name]
    if name in LATER and not hasattr(einops, name.partition(" ")[0]):
        pytest.skip(f"einops {einops.__version__} has no {name.partition(' ')[0]}")
    expected, found = function(IMAGES), function(zyx.Tensor(IMAGES))
    if isinstance(found, zyx.Tensor):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-6)
    else:
        assert found == expected


def test_einops_gives_arrays_of_tensors() -> None:
    array = einops.asnumpy(zyx.Tensor(IMAGES))
    assert isinstance(array, np.ndarray)
    assert np.array_equal(array, IMAGES)


def test_the_mean_of_integers_is_refused_as_everywhere_in_einops() -> None:
    with pytest.raises(NotImplementedError, match="reduce_mean is not available for non-floating"):
        einops.reduce(zyx.arange(6).reshape(2, 3), "a b -> a", "mean")


def test_patterns_that_do_not_fit_are_errors_of_einops() -> None:
    with pytest.raises(einops.EinopsError):
        einops.rearrange(zyx.ones(2, 3), "a b c -> a")
    with pytest.raises(einops.EinopsError):
        einops.rearrange(zyx.ones(2, 3), "(a p) b -> a p b", p=4)


def test_gradients_tracing_and_mapping_go_through() -> None:
    def loss(x: zyx.Tensor) -> zyx.Tensor:
        return (einops.reduce(x, "b h w c -> b c", "sum") ** 2).sum()

    x = zyx.Tensor(IMAGES)
    slope = np.broadcast_to(2 * IMAGES.sum((1, 2), keepdims=True), IMAGES.shape)
    np.testing.assert_allclose(zyx.grad(loss)(x).numpy(), slope, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(zyx.jit(loss)(x).item(), (IMAGES.sum((1, 2)) ** 2).sum(), rtol=1e-4)
    turned = zyx.vmap(lambda image: einops.rearrange(image, "h w c -> c (h w)"))(x)
    assert np.array_equal(turned.numpy(), einops.rearrange(IMAGES, "b h w c -> b c (h w)"))


@pytest.mark.parametrize("imports", ["import einops, zyx", "import zyx, einops, zyx.einops"])
def test_either_import_may_come_first(imports: str) -> None:
    code = f"{imports}; print(einops.rearrange(zyx.ones(2, 3, 5), 'a b c -> c (a b)').shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "(5, 6)"


def test_zyx_imports_no_einops_by_itself() -> None:
    code = "import zyx, sys; zyx.nn; print('einops' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
