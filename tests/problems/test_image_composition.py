"""Image Composition: behaviors with known answers, quality against dm_pix, targets."""

import math
import shutil
from pathlib import Path

import dm_pix
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import softqd
from softqd.ops.circles import Circles
from softqd.problems import image_composition
from softqd.problems._image_composition import behaviors, hue, to_circles

SIZE = 64
PAINTING = Path(__file__).parents[3] / "shared/data/girl_with_a_pearl_earring.jpg"


def circles(k=12, center=(3.0, 4.0), radius=9.0, color=(0.2, 0.4, 0.6)):
    def rows(value, width):
        return jnp.broadcast_to(jnp.asarray(value, jnp.float32), (k, width))

    return Circles(rows(center, 2), rows(radius, 1)[:, 0], rows(color, 3), jnp.ones(k))


def halves(first, second, k=12):
    """Rows of which the first half is one thing and the second half another."""
    rows = [first] * (k // 2) + [second] * (k // 2)
    return jnp.asarray(rows, jnp.float32)


def test_all_circles_equal():
    found = behaviors(circles(), SIZE)
    distance = 1e-3 / (0.25 * math.hypot(SIZE, SIZE))
    expected = [8 / 32, 1e-3 / 16, 0.0, 1.0, 1 - distance]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_smallest_and_largest_radius():
    found = behaviors(circles()._replace(radius=halves(1.0, 33.0)), SIZE)
    np.testing.assert_allclose(found[:2], [0.5, 1.0], rtol=1e-5)


def test_black_and_white_are_as_far_apart_as_colors_get():
    color = halves([0.0] * 3, [1.0] * 3)
    found = behaviors(circles()._replace(color=color), SIZE)
    np.testing.assert_allclose(found[2:4], [1.0, 1.0], rtol=1e-5)


def test_red_and_cyan_in_both_harmonies():
    """Opposite hues, 0 and 1/2, cancel; taken for radians they nearly agree."""
    scene = circles()._replace(color=halves([1.0, 0, 0], [0, 1.0, 1.0]))
    published, full = (
        behaviors(scene, SIZE, harmony)[3] for harmony in ("published", "full_circle")
    )
    np.testing.assert_allclose(published, math.cos(0.25), rtol=1e-6)
    np.testing.assert_allclose(full, 0.0, atol=1e-6)


def test_published_harmony_cannot_fall_below_cos_of_a_half():
    colors = jax.random.uniform(jax.random.key(0), (500, 3))
    scene = circles(500)._replace(color=colors)
    assert behaviors(scene, SIZE)[3] >= math.cos(0.5)


def test_centers_on_a_ring():
    """Five nearest of a regular 24-gon: two sides, two chords over two, one over 3."""
    k, ring = 24, 20.0
    angle = 2 * math.pi * jnp.arange(k) / k
    center = 32 + ring * jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)
    chord = [2 * ring * math.sin(math.pi * step / k) for step in (1, 1, 2, 2, 3)]
    expected = 1 - np.mean(chord) / (0.25 * math.hypot(SIZE, SIZE))
    found = behaviors(circles(k)._replace(center=center), SIZE)[4]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_far_apart_centers_are_clipped_to_no_clustering():
    center = 1000.0 * jnp.arange(24.0).reshape(12, 2)
    assert behaviors(circles()._replace(center=center), SIZE)[4] == 0.0


def test_hue_equals_dm_pix():
    colors = jax.random.uniform(jax.random.key(1), (300, 3))
    np.testing.assert_allclose(hue(colors), dm_pix.rgb_to_hsv(colors)[:, 0], atol=1e-6)


def test_logits_to_circles():
    found = to_circles(jnp.zeros((1, 7)).at[0, 2].set(50.0), SIZE)
    np.testing.assert_allclose(found.center, [[32.0, 32.0]])
    np.testing.assert_allclose(found.radius, [33.0])
    np.testing.assert_allclose(found.alpha, [0.5])


def test_quality_equals_dm_pix_on_the_rendering():
    problem = image_composition(num_circles=20, size=24)
    solution = problem.sample(jax.random.key(0))
    assert jnp.abs(solution).max() <= 2.0
    picture = problem.render(solution)
    expected = 50 * (
        1 + dm_pix.ssim(picture, jnp.asarray(problem.target), filter_size=5)
    )
    np.testing.assert_allclose(problem.evaluate(solution).quality, expected, rtol=1e-4)


def test_gradient_is_finite_where_behaviors_have_kinks():
    """All circles equal, gray, at one place: roots and hues are at their worst."""
    problem = image_composition(num_circles=8, size=16)
    jacobian = jax.jit(jax.jacrev(lambda s: jnp.append(*problem.evaluate(s)[::-1])))
    assert jnp.isfinite(jacobian(jnp.zeros((8, 7)))).all()


def test_ascent_improves_the_likeness():
    problem = image_composition(num_circles=16, size=16)
    algorithm = softqd.squad_published(
        problem, population_size=6, batch_size=3, num_neighbors=0
    )
    result = softqd.run(algorithm, num_iterations=40, log_every=40)
    start, end = result.history["mean_quality"]
    assert end > start + 5


# --- targets --------------------------------------------------------------------------


def test_default_target_ships_with_a_dependency():
    problem = image_composition(num_circles=6, size=32)
    assert problem.target.shape == (32, 32, 3)
    assert problem.target.std() > 0.1
    assert "hopper" in problem.name


def test_target_by_path_is_reduced_by_lanczos(tmp_path):
    path = tmp_path / "picture.png"
    pixels = np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    problem = image_composition(num_circles=6, target=str(path), size=16)
    expected = Image.fromarray(pixels).resize((16, 16), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(
        problem.target, np.asarray(expected, np.float32) / 255
    )
    assert "picture" in problem.name


def test_unreadable_targets(tmp_path):
    (tmp_path / "text.png").write_text("not a picture")
    with pytest.raises(ValueError, match="cannot be read as a picture"):
        image_composition(target=str(tmp_path / "text.png"))
    with pytest.raises(ValueError, match="names hopper, vermeer"):
        image_composition(target="verneer")


def test_offline_the_painting_is_refused_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match=r"with a network, .*target=PATH"):
        image_composition(target="vermeer")


@pytest.mark.skipif(not PAINTING.exists(), reason="the painting is not here")
def test_painting_is_taken_from_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SOFTQD_CACHE", str(tmp_path))
    shutil.copy(PAINTING, tmp_path / "vermeer.jpg")
    by_name = image_composition(target="vermeer", size=16)
    by_path = image_composition(target=str(PAINTING), size=16)
    np.testing.assert_array_equal(by_name.target, by_path.target)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_circles": 5}, "num_circles must be a whole number at least 6"),
        ({"size": 4}, "size must be a whole number at least 5"),
        ({"harmony": "round"}, "harmony must be one of published, full_circle"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        image_composition(**settings)
