"""Expected arrays come from NVIDIA's implementation, on a tiny generator."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.networks import stylegan2

pytestmark = pytest.mark.networks

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(scope="module")
def tiny():
    with np.load(FIXTURES / "stylegan2_tiny.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def state(tiny):
    """The official state dict."""
    prefix = "state/"
    return {k.removeprefix(prefix): x for k, x in tiny.items() if k.startswith(prefix)}


@pytest.fixture(scope="module")
def params(state):
    return stylegan2.load(state)


def assert_close(actual, expected, rtol=1e-5):
    """Relative to the largest number; ten times stricter than was asked for."""
    scale = np.abs(expected).max()
    np.testing.assert_allclose(actual / scale, expected / scale, atol=rtol, rtol=0)


def channels_last(x):
    return x.transpose(0, 2, 3, 1)


@pytest.mark.parametrize(("psi", "name"), [(1.0, "out/ws"), (0.7, "out/ws_psi0.7")])
def test_mapping_is_the_official_one(tiny, params, psi, name):
    assert_close(stylegan2.mapping(params, tiny["in/z"], psi), tiny[name])


@pytest.mark.parametrize("noise", ["const", "none"])
def test_synthesis_is_the_official_one(tiny, params, noise):
    images = stylegan2.synthesis(params, tiny["out/ws"], noise)
    assert_close(images, channels_last(tiny[f"out/img_{noise}"]))


def test_gradient_is_the_official_one(tiny, params):
    proj = channels_last(tiny["in/proj"])

    def loss(ws):
        return jnp.sum(stylegan2.synthesis(params, ws) * proj)

    gradient = jax.jit(jax.grad(loss))(tiny["out/ws"])
    assert_close(gradient, tiny["out/grad_ws_const"])


def test_half_the_bits_cost_a_percent(tiny, params):
    images = stylegan2.synthesis(params, tiny["out/ws"], precision="bfloat16")
    expected = channels_last(tiny["out/img_const"])
    assert images.dtype == jnp.float32
    assert np.sqrt(np.mean((images - expected) ** 2)) < 0.01 * expected.std()


def test_the_filter_is_the_convolution_it_stands_for():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 5, 7, 3), np.float32))
    taps = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype(np.float32) / 16
    kernel = jnp.broadcast_to(jnp.asarray(taps)[:, :, None, None], (4, 4, 1, 3))

    def depthwise(padding, spacing):
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            (1, 1),
            [padding, padding],
            lhs_dilation=(spacing, spacing),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=3,
        )

    assert_close(stylegan2.low_pass(x), depthwise((1, 1), 1))
    # Zeros between pixels, two before the first and one after those behind the last.
    assert_close(stylegan2.upsample(x), depthwise((2, 2), 2))


def test_clamping_bounds_activations_and_nothing_else(tiny, params):
    ws = tiny["out/ws"]
    free = stylegan2.synthesis(params, ws)
    np.testing.assert_array_equal(stylegan2.synthesis(params, ws, conv_clamp=1e4), free)
    # Four layers to RGB, each at most one; the upsampling preserves bounds.
    assert jnp.abs(stylegan2.synthesis(params, ws, conv_clamp=1.0)).max() <= 4.0
    assert jnp.abs(free).max() > 4.0


def test_the_smallest_generator_is_the_first_block_of_the_next():
    state = stylegan2.random_state(8, w_dim=6, max_channels=5)
    silent = {n: 0 * x for n, x in state.items() if "b8.torgb" in n}
    ws = jax.random.normal(jax.random.key(0), (2, 4, 6))
    larger = stylegan2.synthesis(stylegan2.load({**state, **silent}), ws)
    small = {n: x for n, x in state.items() if not n.startswith("synthesis.b8")}
    params = stylegan2.load(small)
    assert (stylegan2.resolution(params), stylegan2.num_ws(params)) == (4, 2)
    assert_close(stylegan2.upsample(stylegan2.synthesis(params, ws[:, :2])), larger)


def test_half_precision_weights_are_read(state, params):
    low = {n: jnp.asarray(x, jnp.bfloat16) for n, x in state.items()}
    loaded = stylegan2.load({n: np.asarray(x) for n, x in low.items()})
    for name, x in params.items():
        np.testing.assert_allclose(loaded[name], x, rtol=2**-8, atol=1e-30)


def test_files_and_dicts_are_the_same(state, params, tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    np.savez(tmp_path / "g.npz", **state)
    numpy_files.save_file(state, tmp_path / "g.safetensors")
    for name in ("g.npz", "g.safetensors"):
        loaded = stylegan2.load(tmp_path / name)
        assert sorted(loaded) == sorted(params)
        jax.tree.map(np.testing.assert_array_equal, loaded, params)


def ffhq():
    """The real model's names and shapes, with arrays that take no memory."""
    shapes = json.loads((FIXTURES / "stylegan2_ffhq1024_shapes.json").read_text())
    arrays = {n: np.broadcast_to(np.float32(0), s) for n, s in shapes.items()}
    blurred = stylegan2.random_state(8, w_dim=2, max_channels=2)
    filter_ = blurred["synthesis.b4.resample_filter"]
    return {n: filter_ if n.endswith("_filter") else x for n, x in arrays.items()}


def test_the_real_model_is_accepted_exactly():
    params = stylegan2.load(ffhq())
    assert stylegan2.resolution(params) == 1024
    assert stylegan2.num_ws(params) == 18
    random = stylegan2.random_state(1024)
    assert {n: x.shape for n, x in random.items()} == {
        n: x.shape for n, x in params.items()
    }


def defect(change):
    arrays = ffhq()
    change(arrays)
    with pytest.raises(ValueError, match="not a StyleGAN2 generator") as error:
        stylegan2.load(arrays)
    return str(error.value)


def test_missing_extra_and_misshapen_arrays_are_named():
    text = defect(lambda a: a.pop("synthesis.b64.conv0.noise_strength"))
    assert text.endswith("1 missing: synthesis.b64.conv0.noise_strength")
    text = defect(lambda a: a.update({"mapping.embed.weight": np.zeros(3)}))
    assert text.endswith("1 unexpected: mapping.embed.weight")
    for name in ("synthesis.b128.conv1.weight", "mapping.w_avg", "mapping.fc0.bias"):
        shape = ffhq()[name].shape
        text = defect(lambda a, n=name: a.update({n: np.zeros(7, np.float32)}))
        assert text.endswith(f"1 misshapen: {name} (7,) instead of {shape}")
    text = defect(lambda a: [a.pop(n) for n in list(a) if "b512.conv" in n])
    assert "14 missing: synthesis.b512.conv0.weight" in text
    assert "and 10 more" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mapping.w_avg": np.full(16, np.nan, np.float32)}, "mapping.w_avg holds"),
        ({"mapping.w_avg": np.full(16, 1e300)}, "mapping.w_avg holds .* not finite"),
        ({"mapping.w_avg": np.zeros(16, int)}, "holds int64, expected floats"),
        (
            {"synthesis.b8.conv0.resample_filter": np.ones((4, 4), np.float32)},
            "b8.conv0.resample_filter is not the filter 1-3-3-1",
        ),
    ],
)
def test_wrong_values_are_named(state, change, message):
    with pytest.raises(ValueError, match=message):
        stylegan2.load({**state, **change})


def test_other_dicts_and_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no names like synthesis.* and mapping"):
        stylegan2.load({"weight": np.zeros(3)})
    with pytest.raises(ValueError, match="power of two"):
        stylegan2.load({"synthesis.b12.x": 0.0, "mapping.fc0.weight": 0.0})
    np.savez(tmp_path / "g.npz", x=np.zeros(9))
    whole = (tmp_path / "g.npz").read_bytes()
    for name in ("cut.npz", "cut.safetensors"):
        (tmp_path / name).write_bytes(whole[:40])
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            stylegan2.load(tmp_path / name)
    np.savez_compressed(tmp_path / "bad.npz", x=np.arange(5000) % 97)
    spoiled = bytearray((tmp_path / "bad.npz").read_bytes())
    spoiled[200:220] = bytes(20)
    (tmp_path / "bad.npz").write_bytes(spoiled)
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    for name in ("bad.npz", "one.npz"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            stylegan2.load(tmp_path / name)
    (tmp_path / "g.pkl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"run 'softqd weights convert .*g.pkl'"):
        stylegan2.load(tmp_path / "g.pkl")
    with pytest.raises(ValueError, match="there is no weight file"):
        stylegan2.load(str(tmp_path / "nothing.npz"))


def test_wrong_arguments_are_named(params):
    with pytest.raises(ValueError, match=r"z must have shape \(n, 16\); got \(16,\)"):
        stylegan2.mapping(params, jnp.zeros(16))
    with pytest.raises(ValueError, match=r"ws must have shape \(n, 8, 16\)"):
        stylegan2.synthesis(params, jnp.zeros((1, 9, 16)))
    ws = jnp.zeros((1, 8, 16))
    with pytest.raises(ValueError, match="noise must be one of const, none"):
        stylegan2.synthesis(params, ws, "random")
    with pytest.raises(ValueError, match="precision must be one of float32"):
        stylegan2.synthesis(params, ws, precision="half")


def convolutions(function, *arguments):
    """Input shapes and group counts of a program's convolutions."""
    equations = jax.make_jaxpr(function)(*arguments).eqns
    return [
        (
            e.invars[0].aval.shape[0],
            e.params["feature_group_count"],
            e.params["batch_group_count"],
        )
        for e in equations
        if e.primitive.name == "conv_general_dilated"
    ]


def test_a_mapped_call_is_one_convolution_per_layer_with_shared_weights(params):
    ws = jnp.zeros((5, 8, 16))

    def one(params, w):
        return stylegan2.synthesis(params, w[None])[0]

    def with_gradient(params, w):
        image, pull = jax.vjp(lambda w: one(params, w), w)
        return pull(jnp.ones_like(image))

    layers = 7  # 4 pixels: one; 8, 16 and 32: two each
    mapped = jax.vmap(one, (None, 0))
    assert convolutions(mapped, params, ws) == [(5, 1, 1)] * layers
    # Backward as many again, towards the inputs: none for a weight.
    mapped = jax.vmap(with_gradient, (None, 0))
    assert convolutions(mapped, params, ws) == [(5, 1, 1)] * 2 * layers
