"""The problem of faces, on tiny networks."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import softqd
from softqd.networks import faces as face_networks
from softqd.networks._graph_openvino import read_openvino
from softqd.networks._graph_tfjs import read_tfjs
from softqd.ops import evaluation
from softqd.problems import _faces, faces

pytestmark = pytest.mark.networks

FACES = Path(__file__).parents[1] / "fixtures" / "faces"


@pytest.fixture(scope="module")
def problem():
    return faces(weights=str(FACES))


@jax.jit
def evaluate(problem, solution):
    return problem.evaluate(solution)


def arc_between(a, b):
    a, b = (np.asarray(x, np.float64) for x in (a, b))
    return np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def person(problem):
    """The person's own latent, from what the evaluation carries."""
    return problem.evaluate.args[0]["person"]


def test_the_person_is_perfect_and_its_picture_is_the_target(problem):
    quality, _ = evaluate(problem, person(problem))
    np.testing.assert_allclose(quality, 100.0, atol=1e-3)
    picture = jax.jit(problem.render)(person(problem))
    np.testing.assert_allclose(picture, problem.target, atol=1e-5)
    assert problem.target.shape == (16, 16, 3)
    assert float(problem.target.min()) >= 0
    assert float(problem.target.max()) <= 1


def test_a_solution_is_read_as_the_networks_read_its_picture(problem):
    """All steps by hand: unit, picture, crop, channels, means, expectation, odds."""
    solution = problem.sample(jax.random.key(3))
    carried = problem.evaluate.args[0]
    synthesis = read_openvino(FACES / "SynthesisNetwork.xml")
    w = np.asarray(solution) * carried["std"] + carried["mean"]
    picture = np.asarray(jax.jit(synthesis.apply)(synthesis.params, w[None]))[0]
    picture = (picture.transpose(1, 2, 0) + 1) / 2
    bgr = 255 * np.asarray(face_networks.crop(jnp.asarray(picture), 12))[..., ::-1]
    names = ["global_pooling/Mean", "age_pred/Softmax"]
    face = read_tfjs(FACES / "faceres.json", names)
    embedding, ages = face.apply(face.params, (bgr - [103.939, 116.779, 123.68])[None])
    emotion = read_tfjs(FACES / "emotion.json", ["Identity"])
    gray = np.asarray(face_networks.crop(jnp.asarray(picture), 10)) @ [
        0.2989,
        0.587,
        0.114,
    ]
    (p,) = emotion.apply(emotion.params, (2 * gray - 1)[None, ..., None])
    happy = float(p[0, 3])
    quality, (age, smile) = evaluate(problem, solution)
    np.testing.assert_allclose(age, np.asarray(ages)[0] @ np.arange(1, 101), rtol=1e-4)
    np.testing.assert_allclose(
        4 * np.log(smile / (1 - smile)), np.log(happy / (1 - happy)), rtol=1e-3
    )
    arc = arc_between(embedding[0], carried["embedding"])
    excess = max(np.linalg.norm(solution) - np.linalg.norm(carried["person"]), 0)
    expected = 100 - 100 * (arc / 1.08) ** 2 - 0.2 * excess**2
    np.testing.assert_allclose(quality, expected, atol=1e-2)


def test_a_latent_longer_than_the_person_pays(problem):
    """Away from the person, quality falls by the squared excess beside the likeness."""
    q = person(problem)
    longer = 3 * q
    norm = float(jnp.linalg.norm(q))
    settings = problem.evaluate.func.keywords
    look = jax.jit(functools.partial(_faces._look, **settings))
    embedding = look(problem.evaluate.args[0], longer)[1]
    arc = arc_between(embedding, problem.evaluate.args[0]["embedding"])
    expected = 100 - 100 * (arc / 1.08) ** 2 - 0.2 * (2 * norm) ** 2
    np.testing.assert_allclose(evaluate(problem, longer)[0], expected, rtol=1e-4)


def test_latents_have_unit_variance_and_start_between_person_and_others(problem):
    """At start=1, samples are the generator's own latents in their units."""
    whole = faces(weights=str(FACES), start=1.0)
    keys = jax.random.split(jax.random.key(0), 4000)
    others = jax.vmap(whole.sample)(keys)
    np.testing.assert_allclose(others.std(0), 1.0, atol=0.06)
    np.testing.assert_allclose(others.mean(0), 0.0, atol=0.06)
    halfway = jax.vmap(problem.sample)(keys[:8])
    expected = (np.asarray(others[:8]) + np.asarray(person(problem))) / 2
    np.testing.assert_allclose(halfway, expected, rtol=1e-4, atol=1e-5)


def test_truncation_paints_closer_to_the_mean_face():
    plain, timid = (faces(weights=str(FACES), truncation=t) for t in (1.0, 0.25))
    stds = [p.evaluate.args[0]["std"] for p in (plain, timid)]
    np.testing.assert_allclose(stds[1], 0.25 * stds[0], rtol=1e-6)
    np.testing.assert_allclose(person(plain), person(timid), rtol=1e-6)


def test_persons_differ():
    first, second = (person(faces(i, weights=str(FACES))) for i in (0, 1))
    assert float(jnp.abs(first - second).max()) > 0.1


def test_gradient_matches_finite_differences(problem, x64):
    fine = jax.tree.map(lambda x: x.astype(jnp.float64), problem)
    x, way = np.random.default_rng(0).normal(size=(2, 8))

    @jax.jit
    def total(x):
        quality, behavior = fine.evaluate(x)
        return quality + behavior[0] + 10 * behavior[1]

    slope = (total(x + 1e-6 * way) - total(x - 1e-6 * way)) / 2e-6
    np.testing.assert_allclose(jax.jit(jax.grad(total))(x) @ way, slope, rtol=1e-5)


def test_gradient_is_finite_at_the_person(problem):
    gradient = jax.jit(jax.grad(lambda x: problem.evaluate(x)[0]))(person(problem))
    assert bool(jnp.isfinite(gradient).all())


def test_weights_are_arguments_of_the_program(problem):
    solutions = jax.vmap(problem.sample)(jax.random.split(jax.random.key(0), 2))
    closed = jax.make_jaxpr(evaluation.evaluate)(problem, solutions)
    assert sum(np.size(c) for c in closed.consts) < 20


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 1e-4), ("bfloat16", 5)]
)
def test_precisions(problem, precision, tolerance):
    other = faces(weights=str(FACES), precision=precision)
    x = problem.sample(jax.random.key(5))
    found = evaluate(other, x)
    np.testing.assert_allclose(found[0], evaluate(problem, x)[0], atol=tolerance)
    assert found[1].dtype == jnp.float32


def test_squad_spreads_ages_and_smiles(problem):
    algorithm = softqd.squad(
        problem,
        population_size=16,
        batch_size=8,
        gamma_sq=0.1,
        optimizer=optax.adam(0.1),
    )
    result = softqd.run(algorithm, seed=0, num_iterations=40, log_every=40)
    start = algorithm.population(jax.jit(algorithm.init)(jax.random.key(0)))
    spread = [np.asarray(p.behavior).std(0) for p in (start, result.population)]
    assert (spread[1] > 1.5 * spread[0]).all()
    assert result.population.quality.mean() > 50


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"person": -1}, r"person must be a whole number between 0 and .*; got -1"),
        ({"person": 10**20}, r"person must be a whole number between 0 and"),
        ({"start": 0.0}, r"start must be above 0 and at most 1; got 0.0"),
        ({"truncation": 1.5}, r"truncation must be above 0 and at most 1; got 1.5"),
        ({"precision": "int8"}, r"precision must be one of float32, .*; got 'int8'"),
        ({"weights": "nowhere"}, r"not in nowhere .*run 'softqd weights fetch faces'"),
    ],
)
def test_bad_settings(settings, says):
    with pytest.raises(ValueError, match=says):
        faces(**{"weights": str(FACES), **settings})
