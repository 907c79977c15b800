"""SQUAD on Image Composition against the straightforward formulation, in one run.

Usage: python benchmarks/image_speed.py [--growth] [--whole PICTURE]

The floor of one iteration (N=1024 solutions of k=1024 circles, 64 x 64 pixels), if
every circle were drawn at every pixel: N k 4096 = 4.3 G pairs, each visited in two
forward passes and one backward pass.

- Special functions: an exponential and a reciprocal per visit, 26 G. An H200 does 16 a
  clock on each of 132 multiprocessors at about 1.8 GHz, 3.8 T/s: 6.8 ms.
- Arithmetic: about 13 operations forward (squared distance 4, edge 1, opacity 1,
  transmittances 3, colors 4) and 32 backward (8 to recompute, 10 for the slopes, 14
  for seven sums): 58 operations a pair, 250 G instructions. At 128 a clock, 31 T/s:
  8.0 ms.
- Memory: transmittances every 8 circles, written and read once: 2 * 4 * 4.3 G / 8 =
  4.3 GB, 1 ms at 4 TB/s; pictures, solutions and moments are small beside it.

Special functions and arithmetic overlap: about 8 ms. Two things go below that floor:
tiles pass over circles that do not reach them, and stop where nothing more can be seen.
What is drawn of all pairs is printed. Above it: one warp per tile hides latencies only
in part, the sums over pixels need shuffles, and the rest of the iteration (nearest
circles, SSIM, Adam, the algorithm itself) takes its own time.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from squad_speed import compiled_loop
from straightforward import image_composition, straightforward_squad

import softqd


def ours(num_circles, population_size, batch_size):
    problem = softqd.problems.image_composition(num_circles)
    algorithm = softqd.squad_published(
        problem, population_size=population_size, batch_size=batch_size
    )
    state = jax.jit(algorithm.init)(jax.random.key(0))
    return problem, state, compiled_loop(lambda s: algorithm.step(s)[0], state)


def compare(num_circles, population_size, batch_size, repeats, num_steps):
    """Both formulations by turns, so that a busy machine disturbs both alike."""
    problem, state, seconds = ours(num_circles, population_size, batch_size)
    evaluate = image_composition(jnp.asarray(problem.target), num_circles)
    init, step = straightforward_squad(evaluate, 1.0, population_size, batch_size)
    flat = state.solutions.reshape(population_size, -1)
    plain = compiled_loop(step, jax.jit(init)(jax.random.key(0), flat))
    times = np.array([(seconds(num_steps), plain(1)) for _ in range(repeats)])
    ours_ms, plain_ms = 1e3 * np.median(times, axis=0)
    ratio = np.median(times[:, 1] / times[:, 0])
    print(
        f"{num_circles} circles, N={population_size}, M={batch_size}: ours "
        f"{ours_ms:.2f} ms/iteration, straightforward {plain_ms:.1f} ms/iteration, "
        f"ratio {ratio:.1f}",
        flush=True,
    )


def growth(sizes, num_steps):
    """Milliseconds per iteration against circles and against population."""
    for num_circles, population_size, batch_size in sizes:
        _, _, seconds = ours(num_circles, population_size, batch_size)
        best = 1e3 * min(seconds(num_steps) for _ in range(3))
        scale = num_circles * population_size / 2**20
        print(
            f"{num_circles:5} circles, N={population_size:5}, M={batch_size}: "
            f"{best:8.2f} ms/iteration, {best / scale:8.2f} ms per 2^20 circles",
            flush=True,
        )


def drawn_share(solutions, size=64):
    """Share of (tile, circle) pairs that the kernels draw."""
    from softqd.ops import circles, circles_kernel
    from softqd.problems._image_composition import to_circles

    canvas = circles.Canvas(size, size, (1.0, 1.0, 1.0), False)
    scale = circles._scale(10.0)
    rows = circles._rows(jax.vmap(lambda s: to_circles(s, size))(solutions), 10.0)
    forward = jax.vmap(lambda r: circles_kernel.forward(r, canvas, scale, True)[1])
    _, counts = jax.jit(forward)(rows)
    tiles = range(counts.shape[1])
    places = [circles_kernel._place(jnp.int32(t), canvas, scale)[2] for t in tiles]
    index = jnp.arange(rows.shape[1])
    seen = counts[..., None] * circles_kernel.SEGMENT > index[None, None]
    columns = jnp.moveaxis(rows, -1, 0)
    reached = jnp.stack([is_reached(columns) for is_reached in places], 1)
    return float((seen & reached).mean())


def whole(picture):
    """A whole run of the published settings, through softqd.run."""
    problem = softqd.problems.image_composition(target=picture)
    algorithm = softqd.squad_published(problem, gamma_sq=1.0)
    result = softqd.run(algorithm, seed=2001, num_iterations=1000, log_every=1000)
    print(f"1000 iterations: {result.timings['run']:.1f} s, ", end="")
    print(f"compilation {result.timings['compile']:.1f} s")
    stats = jax.devices()[0].memory_stats() or {}
    print(f"peak memory {stats.get('peak_bytes_in_use', 0) / 2**30:.2f} GiB")
    solutions = jnp.asarray(result.population.solutions[:64])
    start = jax.vmap(problem.sample)(jax.random.split(jax.random.key(0), 64))
    for name, some in (("start", start), ("end", solutions)):
        print(f"drawn at the {name}: {drawn_share(some):.1%} of all pairs")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--whole", metavar="PICTURE")
    arguments = parser.parse_args()
    is_cpu = jax.default_backend() == "cpu"
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    if arguments.whole:
        whole(arguments.whole)
    if is_cpu:
        compare(256, 64, 16, repeats=5, num_steps=2)
        sizes = [(k, n, 16) for k, n in ((64, 32), (128, 32), (256, 32), (64, 128))]
    else:
        compare(1024, 1024, 64, repeats=3, num_steps=20)
        pairs = ((256, 1024), (512, 1024), (1024, 1024), (2048, 1024), (1024, 256))
        sizes = [(k, n, 64) for k, n in (*pairs, (1024, 512), (1024, 2048))]
    if arguments.growth:
        growth(sizes, 2 if is_cpu else 20)


if __name__ == "__main__":
    main()
