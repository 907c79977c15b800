"""Latent Space Illumination with tiny networks, against formulas in NumPy."""

import math
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from official_pickles import official_pickle

import softqd
from softqd.cli import invoke
from softqd.experiment import config
from softqd.networks import clip, stylegan2, weights
from softqd.problems import Generator, Scorer, latent_space
from softqd.problems._latent_space import arc_distance
from softqd.problems._prompts import pair_name
from softqd.settings import describe
from softqd.types import lift_arrays

pytestmark = pytest.mark.networks

CLIP_FOLDER = Path(__file__).parents[1] / "fixtures" / "clip_tiny"
ROWS, WIDTH, SIDE, EMBEDDING = 3, 5, 8, 6
PROMPT, PAIRS = "a face", [("young", "old"), ("long hair", "short hair")]


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mapping(params, z, truncation):
    """Rows that differ, around a center that is not zero."""
    center = params["center"][None]
    w = jnp.tanh(z @ params["map"]).reshape(-1, ROWS, WIDTH) + 2.0
    return center + truncation * (w - center)


def synthesis(params, latents, precision):
    flat = latents.reshape(len(latents), -1) @ params["draw"]
    return flat.reshape(-1, SIDE, SIDE, 3)


GENERATOR = Generator(
    {
        "center": 2 + 0.1 * random(0, ROWS, WIDTH),
        "map": random(1, 4, ROWS * WIDTH),
        "draw": 0.1 * random(2, ROWS * WIDTH, SIDE * SIDE * 3),
    },
    mapping,
    synthesis,
    latent_dim=4,
)
PARAMS = GENERATOR.params
SCORER = Scorer(
    random(3, SIDE * SIDE * 3, EMBEDDING),
    lambda params, pictures: pictures.reshape(len(pictures), -1) @ params,
    lambda sentences: random(4, len(sentences), EMBEDDING),
)


def build(generator=GENERATOR, scorer=SCORER, **settings):
    settings = {"prompt": PROMPT, "pairs": PAIRS, "num_latents": 200, **settings}
    return latent_space(generator, scorer, **settings)


def arrays_of(problem):
    return problem.evaluate.args[0]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def arc(x, y):
    return 2 * np.arcsin(np.linalg.norm(x - y, axis=-1) / 2)


def picture_of(latents):
    """In [-1, 1]."""
    return (latents.reshape(-1) @ PARAMS["draw"]).reshape(SIDE, SIDE, 3)


def embedding_of(latents):
    return unit(((picture_of(latents) + 1) / 2).reshape(-1) @ SCORER.params)


def random_latents(key, num, truncation=0.7):
    z = np.asarray(jax.random.normal(key, (num, 4)))
    w = np.tanh(z @ PARAMS["map"]).reshape(num, ROWS, WIDTH) + 2.0
    return PARAMS["center"] + truncation * (w - PARAMS["center"])


# --- the definition -------------------------------------------------------------------


def test_scale_and_limit_of_the_latents():
    found = arrays_of(build())
    ws = random_latents(jax.random.key(0), 200)
    q = (ws - PARAMS["center"]) / ws.std(axis=0)
    np.testing.assert_allclose(found.center, PARAMS["center"], rtol=1e-6)
    np.testing.assert_allclose(found.scale, ws.std(axis=0), rtol=1e-5)
    limit = 0.35 * np.sqrt((q**2).sum((1, 2))).mean()
    np.testing.assert_allclose(found.norm_limit, limit, rtol=1e-5)


def test_quality_and_behavior():
    problem = build()
    arrays = arrays_of(problem)
    scale, limit = np.asarray(arrays.scale), float(arrays.norm_limit)
    texts = unit(random(4, 5, EMBEDDING))  # prompt, first sentences, second sentences
    for seed in range(5):
        q = 0.3 * (1 + seed) * random(10 + seed, ROWS * WIDTH)
        image = embedding_of(q.reshape(ROWS, WIDTH) * scale + PARAMS["center"])
        excess = max(np.linalg.norm(q) - limit, 0)
        a = arc(image, texts[0])
        quality = 100 - 100 * (a**2 / 2) / (math.pi**2 / 2) - 0.2 * excess**2
        gap = arc(image, texts[1:3]) - arc(image, texts[3:5])
        share = np.clip((gap + math.pi) / (2 * math.pi), 0.45, 0.55)
        found = problem.evaluate(jnp.asarray(q))
        np.testing.assert_allclose(found.quality, quality, rtol=1e-4)
        np.testing.assert_allclose(found.behavior, (share - 0.45) * 10, atol=1e-4)


def with_pictures(red_green_blue, texts, **settings):
    """Pictures of one color whatever the latent; the embedding is that color."""
    color = jnp.asarray(red_green_blue, jnp.float32)
    generator = GENERATOR._replace(
        synthesis=lambda p, w, _: jnp.zeros((len(w), 2, 2, 3)) + 2 * color - 1
    )
    scorer = Scorer((), lambda _, x: x[:, 0, 0], lambda _: np.asarray(texts, float))
    return build(generator, scorer, **settings)


@pytest.fixture
def any_rank():
    with jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.usefixtures("any_rank")
def test_quality_by_hand():
    """A right angle costs a quarter of 100; beyond the limit, 0.2 per unit squared."""
    pairs = [("x", "y")]
    problem = with_pictures([1, 0, 0], [[0, 1, 0], [1, 0, 0], [0, 0, 1]], pairs=pairs)
    limit = float(arrays_of(problem).norm_limit)
    direction = unit(random(5, ROWS * WIDTH))
    for norm, quality in ((0.0, 75.0), (limit, 75.0), (limit + 3, 75 - 0.2 * 9)):
        found = problem.evaluate(jnp.asarray(norm * direction)).quality
        np.testing.assert_allclose(found, quality, rtol=1e-5)


@pytest.mark.usefixtures("any_rank")
@pytest.mark.parametrize(
    ("angle", "behavior"),
    [
        (0.0, 0.5),  # as far from the first as from the second
        (0.1, (0.2 / (2 * math.pi) + 0.05) * 10),  # 0.1 nearer to the second
        (-0.1, (-0.2 / (2 * math.pi) + 0.05) * 10),
        (0.5, 1.0),  # clipped
        (-0.5, 0.0),
    ],
)
def test_behavior_by_hand(angle, behavior):
    """The picture lies between two sentences at a right angle, off the middle."""
    turn = math.pi / 4 + angle
    color = [math.cos(turn), math.sin(turn), 0]
    problem = with_pictures(color, np.eye(3)[[2, 0, 1]], pairs=[("x", "y")])
    found = problem.evaluate(jnp.zeros(ROWS * WIDTH)).behavior
    np.testing.assert_allclose(found, [behavior], atol=2e-5)
    assert 0 <= found[0] <= 1


def test_arc_distance_equals_the_arcsine():
    x, y = unit(random(6, 2, 50, 7))
    found = jax.vmap(arc_distance)(x, y)
    np.testing.assert_allclose(found, arc(x, y), rtol=1e-5)


@pytest.mark.parametrize("y", [[1.0, 0.0], [-1.0, 0.0]])
def test_arc_distance_has_a_finite_slope_at_both_ends(y):
    slope = jax.grad(lambda x: arc_distance(x, jnp.array(y)) ** 2)(jnp.array([1.0, 0]))
    assert jnp.isfinite(slope).all()


def test_gradient_equals_differences(x64):
    problem = build(precision="float32")
    arrays = jax.tree.map(lambda x: x.astype(jnp.float64), arrays_of(problem))
    evaluate = Partial(problem.evaluate.func, arrays)

    def mixed(q):
        quality, behavior = evaluate(q)
        return quality + behavior @ jnp.array([3.0, -7.0])

    q = jnp.asarray(0.3 * random(7, ROWS * WIDTH), jnp.float64)
    found = jax.grad(mixed)(q)
    step = 1e-5
    for i in (0, 4, 11):
        e = step * jnp.eye(ROWS * WIDTH)[i]
        difference = (mixed(q + e) - mixed(q - e)) / (2 * step)
        np.testing.assert_allclose(found[i], difference, rtol=1e-5)


def test_gradient_at_the_center_is_finite():
    problem = build()
    jacobian = jax.jacrev(problem.evaluate)(jnp.zeros(ROWS * WIDTH))
    assert all(jnp.isfinite(x).all() for x in jacobian)


def test_start_is_the_candidate_nearest_to_the_prompt():
    problem = build(num_starts=64)
    scale = np.asarray(arrays_of(problem).scale)
    texts = unit(random(4, 5, EMBEDDING))
    for seed in range(3):
        key = jax.random.key(seed)
        ws = random_latents(key, 64)
        best = np.argmin([arc(embedding_of(w), texts[0]) for w in ws])
        wanted = ((ws[best] - PARAMS["center"]) / scale).reshape(-1)
        np.testing.assert_allclose(problem.sample(key), wanted, atol=2e-5)


@pytest.mark.parametrize(("num_starts", "spent"), [(64, 8 * 65), (5, 8 * 6), (1, 8)])
def test_evaluations_of_the_start_are_counted(num_starts, spent):
    problem = build(num_starts=num_starts)
    algorithm = softqd.squad_published(problem, population_size=8, batch_size=4)
    result = softqd.run(algorithm, num_iterations=2)
    assert result.history["evaluations"].tolist() == [spent, spent + 2 * 2 * 8]


def test_rendered_picture_is_the_drawn_one_clipped():
    problem = build()
    q = 3 * random(8, ROWS * WIDTH)
    scale = np.asarray(arrays_of(problem).scale)
    picture = picture_of(q.reshape(ROWS, WIDTH) * scale + PARAMS["center"])
    assert np.abs(picture).max() > 1
    wanted = np.clip((picture + 1) / 2, 0, 1)
    np.testing.assert_allclose(problem.render(jnp.asarray(q)), wanted, atol=1e-5)


def test_ascent_improves_and_spreads():
    algorithm = softqd.squad(
        build(), population_size=12, batch_size=4, num_neighbors=4, gamma_sq=0.01
    )
    result = softqd.run(algorithm, num_iterations=60, log_every=60)
    first, last = result.history["mean_quality"]
    assert last > first + 1


# --- weights are arguments ------------------------------------------------------------


def const_bytes(function, *args):
    consts = jax.make_jaxpr(function)(*args).consts
    return sum(np.asarray(x).nbytes for x in consts)


def test_weights_are_not_constants_of_compiled_code():
    problem = build(num_starts=3)
    algorithm = softqd.squad(problem, population_size=4, batch_size=2)
    key, q = jax.random.key(0), jnp.zeros(ROWS * WIDTH)
    state = algorithm.init(key)
    weights = sum(x.nbytes for x in jax.tree.leaves(arrays_of(problem)))
    assert const_bytes(problem.evaluate, q) > 0.9 * weights  # the check can fail
    for function, arg in (
        (algorithm.init, key),
        (algorithm.step, state),
        (problem.render, q),
    ):
        call = lambda function, arg: function(arg)  # noqa: E731
        assert const_bytes(call, lift_arrays(function), arg) < 0.05 * weights
        lowered = jax.jit(call).lower(lift_arrays(function), arg).as_text()
        assert "dense_resource" not in lowered
        # A constant would be spelled out, two letters a byte.
        assert len(lowered) < 300_000


def test_weights_are_on_the_device_before_the_run():
    for leaf in jax.tree.leaves(arrays_of(build())):
        assert isinstance(leaf, jax.Array)


def test_one_solution_at_a_time_becomes_one_product_for_all():
    """Shared weights: the batch is a side of the matrix, not a batch of products."""
    problem = build()
    batch = jnp.zeros((7, ROWS * WIDTH))
    text = jax.jit(jax.vmap(problem.evaluate)).lower(batch).as_text()
    assert "batching_dims" not in text
    assert problem.behavior_dim == 2


# --- settings -------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_precision_reaches_both_networks(precision):
    seen = []

    def drawn(params, latents, precision):
        seen.append(precision)
        return synthesis(params, latents, precision)

    problem = build(GENERATOR._replace(synthesis=drawn), precision=precision)
    jaxpr = str(jax.make_jaxpr(problem.evaluate)(jnp.zeros(ROWS * WIDTH)))
    assert set(seen) == {precision}
    assert ("HIGHEST" in jaxpr) == (precision == "float32")


def test_pairs_as_text_are_pairs_as_list():
    listed, spelled = (
        build(pairs=pairs) for pairs in (PAIRS, "young|old ;long hair | short hair")
    )
    assert listed.behavior_names == spelled.behavior_names
    q = jnp.ones(ROWS * WIDTH)
    np.testing.assert_array_equal(
        listed.evaluate(q).behavior, spelled.evaluate(q).behavior
    )


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("Photo of a kid", "Photo of an elderly person", "a kid to an elderly person"),
        ("A man with thin hair", "A man with thick hair", "thin to thick hair"),
        ("a person", "a person smiling", "a person to a person smiling"),
        ("a a", "a b a", "a a to a b a"),
        ("smiling", "frowning", "smiling to frowning"),
    ],
)
def test_names_of_behaviors(first, second, name):
    assert pair_name(first, second) == name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt": ""}, "prompt must be a sentence that is not empty"),
        ({"prompt": None}, "prompt must be a sentence that is not empty; got None"),
        ({"pairs": []}, r"pairs must be a list of at least one pair; got \[\]"),
        ({"pairs": 3}, r"pairs must be a list of at least one pair; got 3"),
        ({"pairs": [None]}, r"pairs\[0\] must be two sentences; got None"),
        ({"pairs": ""}, r"pairs\[0\] must be two sentences"),
        ({"pairs": "young"}, r"pairs\[0\] must be two sentences.*first \| second"),
        ({"pairs": "a | b; c |"}, r"the second sentence of pairs\[1\] must be a sent"),
        ({"pairs": [("a", "b"), ("", "c")]}, r"the first sentence of pairs\[1\]"),
        ({"pairs": ["ab"]}, r"pairs\[0\] must be two sentences; got 'ab'"),
        ({"pairs": "a | b | c"}, r"pairs\[0\] must be two sentences"),
        ({"pairs": "a face | A  FACE"}, r"pairs\[0\]: both sentences are 'a face'"),
        ({"precision": "half"}, "precision must be one of float32, tf32, bfloat16"),
        ({"num_starts": 0}, "num_starts must be a whole number at least 1"),
        ({"truncation": 0.0}, "truncation must be a positive number; got 0.0"),
        ({"truncation": "0.7"}, "truncation must be a positive number; got '0.7'"),
        ({"prompt": "\udce9"}, "prompt must be text in UTF-8"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        build(**settings)


@pytest.mark.parametrize(
    ("generator", "scorer", "message"),
    [
        (GENERATOR.params, SCORER, r"generator must be a softqd.problems.Generator"),
        (GENERATOR, 3, r"scorer must be a softqd.problems.Scorer, .*; got int"),
        (
            GENERATOR._replace(mapping=lambda p, z, _: jnp.full((len(z), 3, 5), 0.3)),
            SCORER,
            "generator: mapping gives latents of which 15 of 15 coordinates are the",
        ),
        (
            GENERATOR._replace(synthesis=lambda p, w, _: jnp.zeros((len(w), 4, 4))),
            SCORER,
            r"generator: synthesis must return pictures of shape \(n, h, w, 3\)",
        ),
        (
            GENERATOR,
            SCORER._replace(text_features=lambda texts: random(0, len(texts), 2)),
            r"scorer: image_features gives embeddings of shape \(6,\)",
        ),
        (
            GENERATOR,
            SCORER._replace(text_features=lambda texts: np.zeros((len(texts), 6))),
            "scorer: text_features gives embeddings that are zero or not finite",
        ),
    ],
)
def test_networks_that_do_not_fit(generator, scorer, message):
    with pytest.raises(ValueError, match=message):
        build(generator, scorer)


# --- models from files ----------------------------------------------------------------


def test_clip_folder_as_scorer():
    pairs = [("Photo of a small child", "photo of an elderly person")]
    problem = build(scorer=str(CLIP_FOLDER), prompt="a photo of Tom", pairs=pairs)
    model = clip.load(CLIP_FOLDER)
    tokens = clip.tokenize(CLIP_FOLDER, ["a photo of Tom", *pairs[0]])
    texts = unit(np.asarray(clip.text_features(model, tokens)))
    q = 0.1 * random(9, ROWS * WIDTH)
    scale = np.asarray(arrays_of(problem).scale)
    picture = picture_of(q.reshape(ROWS, WIDTH) * scale + PARAMS["center"])
    small = jax.image.resize(picture, (32, 32, 3), "bicubic", antialias=True)
    pixels = clip.preprocess((small[None] + 1) / 2, size=32)
    image = unit(np.asarray(clip.image_features(model, pixels))[0])
    found = problem.evaluate(jnp.asarray(q))
    quality = 100 - 100 * (arc(image, texts[0]) / math.pi) ** 2
    np.testing.assert_allclose(found.quality, quality, rtol=1e-4)
    assert problem.behavior_names == (
        "Photo of a small child to photo of an elderly person",
    )


def test_text_tower_is_not_carried_along():
    names = set(arrays_of(build(scorer=str(CLIP_FOLDER))).scorer.params)
    assert names
    assert not any(name.startswith("text") for name in names)


def test_prompt_over_the_length_of_clip():
    with pytest.raises(ValueError, match=r"has 102 tokens.* CLIP reads 77"):
        build(scorer=str(CLIP_FOLDER), prompt="photo " * 100)


def lines(capsys):
    return capsys.readouterr().err.strip().splitlines()


def test_run_without_weights_says_what_to_type(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path / "cache"))
    assert invoke(["run", "lsi", "--out", str(tmp_path / "run")]) == 2
    (line,) = lines(capsys)
    assert "softqd weights fetch stylegan2-ffhq" in line
    assert "softqd weights fetch clip-vit-b32" in line
    assert "--set generator=PATH --set scorer=PATH" in line
    assert not (tmp_path / "run").exists()


def test_what_was_fetched_in_part_is_missing(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path))
    folder = tmp_path / "weights" / "clip-vit-b32"
    folder.mkdir(parents=True)
    shutil.copy(CLIP_FOLDER / "config.json", folder)
    assert invoke(["run", "lsi", "--out", str(tmp_path / "run")]) == 2
    (line,) = lines(capsys)
    both = "softqd weights fetch stylegan2-ffhq && softqd weights fetch clip-vit-b32"
    assert f"type '{both}'" in line


def test_only_what_is_missing_is_asked_for(capsys):
    assert invoke(["run", "lsi-hard", "--set", f"scorer={CLIP_FOLDER}"]) == 2
    (line,) = lines(capsys)
    assert "softqd weights fetch stylegan2-ffhq'" in line
    assert "clip" not in line


@pytest.fixture
def tiny_stylegan2(tmp_path):
    """A file with the weights of an untrained generator of 16 x 16 pictures."""
    path = tmp_path / "generator.npz"
    sizes = {"w_dim": 8, "max_channels": 8, "num_layers": 2}
    np.savez(path, **stylegan2.random_state(16, **sizes))
    return path


def refusal(capsys, folder, *arguments):
    """The one line of a command that is refused before it writes anything."""
    settings = [x for text in arguments[1:] for x in ("--set", text)]
    assert invoke(["run", arguments[0], "--out", str(folder / "run"), *settings]) == 2
    (line,) = lines(capsys)
    assert not (folder / "run").exists()
    return line


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["prompt="], "prompt must be a sentence that is not empty; got ''"),
        (
            ["prompt=" + "photo " * 76],
            "has 78 tokens, start and end included, and CLIP",
        ),
        (["pairs=a young man"], "pairs[0] must be two sentences; got"),
        (["pairs=young | old; | short"], "the first sentence of pairs[1] must be a"),
        (["pairs=Long hair | long  hair"], "both sentences are 'Long hair'; they must"),
        (["generator=cut.npz"], "cut.npz cannot be read"),
        (["generator=cut.safetensors"], "cut.safetensors cannot be read"),
        (["generator=other.npz"], "other.npz: not a StyleGAN2 generator"),
        (["generator=g.pkl"], "g.pkl is a pickle; run 'softqd weights convert "),
        (["scorer=cut"], "cut/model.safetensors cannot be read"),
        (["scorer=g.pkl"], "g.pkl/config.json; expected a CLIP folder"),
        (["pairs=a.|a ."], "pairs[0]: 'a.' and 'a .' are the same to the scorer"),
        (["prompt=<|endoftext|>"], "says nothing to CLIP; write a sentence"),
    ],
)
def test_bad_input_on_the_command_line(
    tiny_stylegan2, tmp_path, monkeypatch, capsys, settings, message
):
    monkeypatch.chdir(tmp_path)
    for name in ("cut.npz", "cut.safetensors", "g.pkl"):
        Path(name).write_bytes(tiny_stylegan2.read_bytes()[:1000])
    np.savez("other.npz", weight=np.zeros(3))
    shutil.copytree(CLIP_FOLDER, "cut")
    whole = Path("cut/model.safetensors").read_bytes()
    Path("cut/model.safetensors").write_bytes(whole[:-100])
    models = [f"generator={tiny_stylegan2}", f"scorer={CLIP_FOLDER}"]
    assert message in refusal(capsys, tmp_path, "lsi", *models, *settings)


def test_what_has_no_default_is_asked_for(capsys, tmp_path):
    line = refusal(capsys, tmp_path, "latent_space")
    assert 'no default for prompt and pairs; give --set "prompt=' in line
    line = refusal(capsys, tmp_path, "latent_space", "prompt=a face")
    assert 'no default for pairs; give --set "pairs=a young pirate | an old' in line
    settings = describe(softqd.problems.latent_space)
    examples = {name: settings[name].example for name in ("prompt", "pairs")}
    assert len(build(**examples).behavior_names) == 2


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("SynthesisNetwork.bin", "SynthesisNetwork.bin: Const"),
        ("SynthesisNetwork.xml", "SynthesisNetwork.xml is not a network in OpenVINO"),
        ("faceres.bin", "faceres.bin: Const"),
        ("emotion.json", "emotion.json is not a graph model of TensorFlow.js"),
    ],
)
def test_truncated_networks_of_faces_on_the_command_line(
    capsys, tmp_path, file, message
):
    folder = shutil.copytree(CLIP_FOLDER.with_name("faces"), tmp_path / "faces")
    path = folder / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert message in refusal(capsys, tmp_path, "lsi-faces", f"weights={folder}")


def test_a_noted_clamp_reaches_the_pictures(tmp_path):
    sizes = {"w_dim": 8, "max_channels": 8, "num_layers": 2}
    arrays = stylegan2.random_state(16, **sizes)
    free, bound = tmp_path / "free.pkl", tmp_path / "bound.pkl"
    free.write_bytes(official_pickle(arrays))
    bound.write_bytes(official_pickle(arrays, conv_clamp=0.5))
    params = stylegan2.load(arrays)
    for pickled, clamp in ((free, None), (bound, 0.5)):
        path, _ = weights.convert(pickled)
        problem = build(generator=str(path), scorer=str(CLIP_FOLDER))
        q = problem.sample(jax.random.key(0))
        scale = arrays_of(problem).scale
        ws = (q.reshape(scale.shape) * scale + arrays_of(problem).center)[None]
        wanted = stylegan2.synthesis(params, ws, conv_clamp=clamp)[0]
        np.testing.assert_allclose(
            problem.render(q), jnp.clip((wanted + 1) / 2, 0, 1), atol=1e-4
        )


def test_run_on_the_command_line_with_prompts_of_the_user(
    tiny_stylegan2, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    settings = {
        "generator": tiny_stylegan2.name,
        "scorer": CLIP_FOLDER,
        "prompt": "1984",
        "pairs": "a $_{ man | a $ woman; long hair | short hair",
        "population_size": 4,
        "batch_size": 2,
        "num_starts": 3,
        "num_latents": 50,
    }
    options = [x for k, v in settings.items() for x in ("--set", f"{k}={v}")]
    folder = tmp_path / "run"
    command = ["run", "lsi", "--iterations", "2", "--out", str(folder), *options]
    assert invoke(command) == 0
    assert (folder / "figures" / "gallery.png").stat().st_size > 10_000
    # From elsewhere too: paths and sentences are kept as they were meant.
    monkeypatch.chdir("/")
    assert softqd.load(folder).config["problem"]["prompt"] == "1984"
    page = str(tmp_path / "gallery.pdf")
    assert invoke(["figure", "gallery", str(folder), "--out", page]) == 0
    again = [str(folder / "config.toml"), "--out", str(tmp_path / "again")]
    assert invoke(["run", *again]) == 0
    first, second = (
        softqd.load_population(tmp_path / name / "population.npz")
        for name in ("run", "again")
    )
    np.testing.assert_array_equal(first.solutions, second.solutions)


# --- presets --------------------------------------------------------------------------


def problem_settings(name):
    return config.from_name(name)["problem"]


def test_sentences_of_the_paper():
    """Appendix, section Latent Space Illumination."""
    easy, hard = problem_settings("lsi"), problem_settings("lsi-hard")
    assert easy["prompt"] == "A photo of Tom Cruise"
    assert hard["prompt"] == "A photo of a detective from a noir film"
    counts = [len(s["pairs"].split(";")) for s in (easy, hard)]
    assert counts == [2, 7]
    problem = build(prompt=hard["prompt"], pairs=hard["pairs"])
    assert problem.behavior_names == (
        "a young kid to an elderly person",
        "long to short hair",
        "dark to white hair",
        "smiling to frowning",
        "a round to an oval face",
        "thin, sparse to thick, full hair",
        "directly into the camera to sideways",
    )
    assert easy["num_starts"] == 64
    assert easy["truncation"] == 0.7
    assert easy["num_latents"] == 10_000


@pytest.mark.parametrize(("name", "gamma_sq"), [("lsi", 0.01), ("lsi-hard", 0.1)])
def test_published_settings_of_squad(name, gamma_sq):
    found = config.from_name(name, "squad_published")
    wanted = {
        "population_size": 256,
        "batch_size": 8,
        "num_neighbors": 15,
        "gamma_sq": gamma_sq,
        "optimizer": "adam(0.1)",
    }
    assert found["algorithm"].items() >= wanted.items()
    assert (found["run"]["iterations"], found["run"]["cells"]) == (175, 512)


@pytest.mark.parametrize(
    ("algorithm", "iterations", "wanted"),
    [
        ("cma_mega", 3000, {"optimizer": "adam(0.05)", "sigma0": 0.01}),
        (
            "cma_maega",
            3000,
            {"optimizer": "adam(0.05)", "sigma0": 0.01, "learning_rate": 0.02},
        ),
        ("sep_cma_mae", 3000, {"sigma0": 0.02, "learning_rate": 0.1}),
        (
            "ga_me",
            3000,
            {"iso_sigma": 0.01, "line_sigma": 0.2, "step_size": 0.05, "start_size": 32},
        ),
        ("dns", 3000, {}),
        ("dns_g", 1500, {"grad_batch_size": 8, "step_size": 0.5}),
    ],
)
def test_published_settings_of_the_baselines(algorithm, iterations, wanted):
    found = config.from_name("lsi", algorithm)
    if not algorithm.startswith("dns"):
        wanted = {**wanted, "cells": 40_000}
    if "cma" in algorithm:
        wanted = {**wanted, "num_emitters": 1}
    assert found["algorithm"].items() >= {**wanted, "batch_size": 16}.items()
    assert found["run"]["iterations"] == iterations
