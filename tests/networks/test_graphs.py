"""Network files read into JAX, against the runtimes they were made for."""

import json
import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.cache import cache_folder
from softqd.networks._graph_openvino import read_openvino
from softqd.networks._graph_tfjs import read_tfjs
from softqd.networks._openvino_operations import _convolution

pytestmark = pytest.mark.networks

FACES = Path(__file__).parents[1] / "fixtures" / "faces"
EXPECTED = np.load(FACES / "expected.npz")
OPENVINO = ["MappingNetwork", "SynthesisNetwork"]
TFJS = sorted(name for name in EXPECTED if name.startswith(("out/faceres/", "out/emo")))


def relative_error(found, expected):
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


@pytest.fixture
def copy(tmp_path):
    """Files of the tiny networks that a test may spoil."""
    return Path(shutil.copytree(FACES, tmp_path / "faces"))


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("name", OPENVINO)
def test_openvino_networks_compute_what_openvino_does(name):
    network = read_openvino(FACES / f"{name}.xml")
    found = jax.jit(network.apply)(network.params, EXPECTED[f"in/{name}"])
    assert relative_error(found, EXPECTED[f"out/{name}"]) < 1e-5
    assert network.input_shape == (8,)


@pytest.mark.parametrize("output", TFJS)
def test_tfjs_networks_compute_what_tensorflow_js_does(output):
    name, node = output.removeprefix("out/").split("/", 1)
    network = read_tfjs(FACES / f"{name}.json", [node])
    (found,) = jax.jit(network.apply)(network.params, EXPECTED[f"in/{name}"])
    assert relative_error(found, EXPECTED[output]) < 1e-5
    assert network.input_shape == EXPECTED[f"in/{name}"].shape[1:]


def test_one_example_under_vmap_is_one_batch_with_shared_weights():
    """No convolution may turn into one with groups, one for each example."""
    network = read_openvino(FACES / "SynthesisNetwork.xml")
    batched = jax.vmap(lambda p, x: network.apply(p, x[None])[0], (None, 0))
    x = EXPECTED["in/SynthesisNetwork"]
    found = batched(network.params, x)
    assert relative_error(found, EXPECTED["out/SynthesisNetwork"]) < 1e-5
    found = convolutions(jax.make_jaxpr(batched)(network.params, x).jaxpr)
    assert [e.params["feature_group_count"] for e in found] == [1, 1]
    assert [e.invars[0].aval.shape[0] for e in found] == [3, 3]


def convolutions(jaxpr):
    """Equations that are convolutions, those in branches for a platform included."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "conv_general_dilated":
            found.append(equation)
        for branch in equation.params.get("branches", ()):
            found += convolutions(branch.jaxpr)
    return found


def test_mixing_channels_is_a_convolution_of_single_pixels():
    """On a CPU it is a product of matrices, elsewhere the library's convolution."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(6, 3, 1, 1))
    expected = np.einsum("oc,nchw->nohw", weight[..., 0, 0], x)
    plain = {"strides": "1, 1", "dilations": "1, 1"}
    padded = {"pads_begin": "0, 1", "pads_end": "0, 0"}
    none = {"pads_begin": "0, 0", "pads_end": "0, 0"}
    x, weight = jnp.asarray(x, jnp.float32), jnp.asarray(weight, jnp.float32)
    mixed = _convolution({**plain, **none}, x, weight)
    np.testing.assert_allclose(mixed, expected, rtol=1e-5, atol=1e-5)
    by_library = _convolution({**plain, **padded}, x, weight)[..., 1:]
    np.testing.assert_allclose(by_library, expected, rtol=1e-5, atol=1e-5)


def test_gradient_of_the_generator(x64):
    """Through every operation, against finite differences."""
    network = read_openvino(FACES / "SynthesisNetwork.xml")
    params = jax.tree.map(lambda p: p.astype(jnp.float64), network.params)
    x, way = np.random.default_rng(0).normal(size=(2, 1, 8))

    def energy(x):
        return (network.apply(params, x) ** 2).sum()

    slope = (energy(x + 1e-6 * way) - energy(x - 1e-6 * way)) / 2e-6
    np.testing.assert_allclose((jax.grad(energy)(x) * way).sum(), slope, rtol=1e-6)


def test_unknown_operations_are_named(copy):
    replace(copy / "MappingNetwork.xml", 'type="PReLU"', 'type="Selu"')
    with pytest.raises(ValueError, match=r"MappingNetwork.xml: operation 'Selu' of"):
        read_openvino(copy / "MappingNetwork.xml")
    replace(copy / "emotion.json", '"MaxPool"', '"AvgPool"')
    with pytest.raises(
        ValueError, match=r"emotion.json: operation 'AvgPool' of .*pool"
    ):
        read_tfjs(copy / "emotion.json", ["Identity"])


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("SynthesisNetwork.bin", r"SynthesisNetwork.bin: Const .* is truncated"),
        ("SynthesisNetwork.xml", r"SynthesisNetwork.xml is not a network in OpenVINO"),
        ("emotion.bin", r"emotion.bin: Const .*; the file is truncated"),
        ("emotion.json", r"emotion.json is not a graph model of TensorFlow.js"),
    ],
)
def test_truncated_files(copy, file, says):
    data = (copy / file).read_bytes()
    (copy / file).write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=says):
        read(copy, Path(file).stem)


@pytest.mark.parametrize("file", ["MappingNetwork.bin", "emotion.bin"])
def test_weights_that_are_not_finite(copy, file):
    data = bytearray((copy / file).read_bytes())
    data[::] = b"\xff" * len(data)
    (copy / file).write_bytes(data)
    with pytest.raises(ValueError, match=r"holds values that are not finite; the file"):
        read(copy, Path(file).stem)


@pytest.mark.parametrize("file", ["MappingNetwork.xml", "emotion.bin", "faceres.json"])
def test_missing_files(copy, file):
    (copy / file).unlink()
    with pytest.raises(ValueError, match=f"there is no file .*{file}"):
        read(copy, Path(file).stem)


def read(folder, name):
    if name in OPENVINO:
        return read_openvino(folder / f"{name}.xml")
    return read_tfjs(folder / f"{name}.json", [])


def test_files_of_different_networks(copy):
    """A constant of another shape, too many weights, an output that is not there."""
    replace(copy / "MappingNetwork.xml", 'shape="8, 8"', 'shape="8, 9"')
    with pytest.raises(ValueError, match=r"shape \(8, 9\) .* belongs to another .xml"):
        read_openvino(copy / "MappingNetwork.xml")
    with (copy / "faceres.bin").open("ab") as file:
        file.write(b"more")
    with pytest.raises(
        ValueError, match=r"faceres.bin has .* belongs to another .json"
    ):
        read_tfjs(copy / "faceres.json", [])
    with pytest.raises(ValueError, match=r"emotion.json has no node happy"):
        read_tfjs(copy / "emotion.json", ["happy"])


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("MappingNetwork.xml", 'shape="8, 8"', 'shape="8, x"', r"xml: Const .*' x'"),
        ("MappingNetwork.xml", 'offset="', 'offset="?', r"xml: Const .* ValueError"),
        ("MappingNetwork.xml", 'to-port="', 'to-port="?', r"xml is not a network"),
        ("emotion.json", '"size": "10"', '"size": "x"', "json: the shape of its input"),
        ("emotion.json", '"weights": [', '"weights": ["x", ', "json is not a graph mo"),
    ],
)
def test_numbers_that_are_none_are_named_with_their_file(copy, file, old, new, says):
    replace(copy / file, old, new)
    with pytest.raises(ValueError, match=says):
        read(copy, Path(file).stem)


def test_settings_that_are_not_known_are_refused_when_computed(copy):
    replace(copy / "SynthesisNetwork.xml", 'mode="numpy"', 'mode="pdpd"')
    network = read_openvino(copy / "SynthesisNetwork.xml")
    with pytest.raises(ValueError, match=r"SynthesisNetwork.xml: Broadcast .* 'pdpd'"):
        network.apply(network.params, EXPECTED["in/SynthesisNetwork"])
    graph = json.loads((copy / "faceres.json").read_text())
    node = next(n for n in graph["modelTopology"]["node"] if n["op"] == "Conv2D")
    node["attr"]["data_format"]["s"] = "TkNIVw=="  # NCHW
    (copy / "faceres.json").write_text(json.dumps(graph))
    network = read_tfjs(copy / "faceres.json", ["r"])
    with pytest.raises(ValueError, match=r"faceres.json: Conv2D 'c' .* NHWC"):
        network.apply(network.params, EXPECTED["in/faceres"])


def test_inputs_that_are_not_there(copy):
    replace(copy / "emotion.json", '"input": ["softmax"]', '"input": ["sofmax"]')
    network = read_tfjs(copy / "emotion.json", ["Identity"])
    with pytest.raises(ValueError, match=r"emotion.json: Identity .* 'sofmax'"):
        network.apply(network.params, EXPECTED["in/emotion"])
    replace(copy / "MappingNetwork.xml", '<edge from-layer="', '<edge from-layer="9')
    with pytest.raises(ValueError, match=r"MappingNetwork.xml is not .*: KeyError"):
        read_openvino(copy / "MappingNetwork.xml")


def test_an_input_of_another_shape():
    network = read_openvino(FACES / "MappingNetwork.xml")
    with pytest.raises(ValueError, match=r"MappingNetwork.xml: .* cannot be computed"):
        network.apply(network.params, jnp.ones((1, 9)))


WEIGHTS = Path(os.environ.get("SOFTQD_FACES") or cache_folder() / "weights" / "faces")
needs_weights = pytest.mark.skipif(
    not (WEIGHTS / "SynthesisNetwork.bin").exists(),
    reason="the real networks are neither in the cache nor where SOFTQD_FACES says",
)


@needs_weights
def test_the_real_generator_computes_what_openvino_does():
    z = np.random.default_rng(0).normal(size=(2, 512)).astype(np.float32)
    expected = np.load(FACES / "real.npz")
    mapping = read_openvino(WEIGHTS / "MappingNetwork.xml")
    w = mapping.apply(mapping.params, z)
    assert relative_error(w, expected["w"]) < 1e-5
    synthesis = read_openvino(WEIGHTS / "SynthesisNetwork.xml")
    picture = jax.jit(synthesis.apply)(synthesis.params, expected["w"])
    assert picture.shape == (2, 3, 1024, 1024)
    assert relative_error(picture.ravel()[::2999], expected["picture"]) < 1e-4


@needs_weights
def test_the_real_face_networks_compute_what_tensorflow_js_does():
    rng = np.random.default_rng(0)
    rng.normal(size=(2, 512))
    pixels = rng.uniform(-128, 128, (2, 224, 224, 3)).astype(np.float32)
    gray = rng.uniform(-1, 1, (2, 64, 64, 1)).astype(np.float32)
    expected = np.load(FACES / "real.npz")
    names = ["global_pooling/Mean", "gender_pred/Sigmoid", "age_pred/Softmax"]
    face = read_tfjs(WEIGHTS / "faceres.json", names)
    found = jax.jit(face.apply)(face.params, pixels)
    for name, value in zip(("embedding", "gender", "age"), found, strict=True):
        assert relative_error(value, expected[name]) < 1e-5
    emotion = read_tfjs(WEIGHTS / "emotion.json", ["Identity"])
    (found,) = jax.jit(emotion.apply)(emotion.params, gray)
    assert relative_error(found, expected["emotion"]) < 1e-5
