"""Latent Space Illumination at full size: solution-steps per second, and the floor.

Usage: python benchmarks/lsi_speed.py [--tasks lsi,lsi-hard] [--iterations 6]
           [--precisions tf32,bfloat16] [--starts 64] [--check 32] [--resolution 1024]

StyleGAN2 of 1024 pixels and CLIP ViT-B/32 with random weights, the sentences' places
taken by random embeddings; otherwise the presets' settings (N=256, M=8). Wants a GPU.
`--iterations 175` is the whole run. For each task and precision it prints

- seconds until the first iteration: compiling, and 64 pictures for each of the 256
  members; what compiling took, and the size of the iteration's program, in which the
  networks' 470 MB of weights must not appear;
- seconds of an iteration, the median, and solution-steps per second, a gradient and a
  re-evaluation each;

and at the end what the faster precisions change in quality and behavior.

The floor is that of the synthesis (`benchmarks/stylegan2_speed.py`): CLIP adds 4.4 GMAC
to its 74, and the reduction to 224 pixels, one pass over the picture, little more.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np
import optax

import softqd
from softqd.networks import clip, stylegan2
from softqd.networks._clip_files import ClipConfig, Tower, weight_shapes
from softqd.ops.evaluation import evaluate
from softqd.problems import Generator, Scorer, latent_space
from softqd.registry import PRESETS
from softqd.types import lift_arrays

VIT_B32 = ClipConfig(
    Tower(768, 3072), Tower(512, 2048, 12, 8), 224, 32, 49408, 77, 49407, 512
)


def random_generator(resolution):
    params = stylegan2.load(stylegan2.random_state(resolution))

    def synthesis(params, latents, precision):
        return stylegan2.synthesis(params, latents, noise="const", precision=precision)

    return Generator(params, stylegan2.mapping, synthesis, 512)


def random_scorer(seed=1):
    """Linear maps that keep the size of what they are given."""
    rng = np.random.default_rng(seed)

    def draw(name, shape):
        if name.endswith("bias"):
            return np.zeros(shape, np.float32)
        if "norm" in name or "layrnorm" in name:
            return np.ones(shape, np.float32)
        fan_in = max(int(np.prod(shape[1:])), 1)
        return rng.standard_normal(shape, np.float32) / np.float32(fan_in**0.5)

    params = {k: draw(k, shape) for k, shape in weight_shapes(VIT_B32).items()}
    tower = clip.image_tower(clip.Clip(params, VIT_B32))

    def image_features(tower, pictures):
        return clip.image_features(tower, clip.preprocess(pictures, 224))

    def text_features(sentences):
        places = np.random.default_rng(2)  # the same at every call
        return places.standard_normal((len(sentences), 512), np.float32)

    return Scorer(tower, image_features, text_features)


def measure(problem, settings, iterations):
    """Run, and say what compiling, the start and the iterations took."""
    built = []

    def note(event, seconds, **_):
        if event.endswith("backend_compile_duration") and seconds > 1:
            built.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(note)
    algorithm = softqd.squad_published(problem, **settings)
    result = softqd.run(algorithm, seed=2001, num_iterations=iterations, log_every=1)
    jax.monitoring.clear_event_listeners()
    times = np.diff(result.history["seconds"])
    start, whole = result.timings["compile"], sum(result.timings.values())
    n = settings["population_size"]
    memory = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    step = lift_arrays(algorithm.step)
    state = jax.eval_shape(algorithm.init, jax.random.key(0))
    text = jax.jit(lambda step, state: step(state)).lower(step, state).as_text()
    print(
        f"  {start:.0f} s until the first iteration, of which compiling took "
        f"{' and '.join(f'{s:.0f}' for s in built)} s at once; an iteration "
        f"{np.median(times):.3f} s, {n / np.median(times):.1f} solution-steps/s; "
        f"{iterations} iterations with all of this {whole:.0f} s; program of "
        f"{len(text) / 1e6:.1f} MB; peak {memory / 2**30:.1f} GiB; mean quality "
        f"{result.population.quality.mean():.1f}",
        flush=True,
    )
    return result.population.solutions


def print_effects(problems, solutions):
    """Changes of quality and behavior against float32."""
    program = jax.jit(lambda problem, x: evaluate(problem, x, chunk_size=8))
    found = {name: program(problem, solutions) for name, problem in problems.items()}
    exact = found.pop("float32")
    spread = np.std(exact.behavior, axis=0).mean()
    for name, fast in found.items():
        quality = np.abs(fast.quality - exact.quality)
        behavior = np.abs(fast.behavior - exact.behavior)
        print(
            f"  {name} against float32, {len(solutions)} members: quality "
            f"{quality.mean():.2g} in the mean, {quality.max():.2g} at most; behavior "
            f"{behavior.mean():.2g}, {behavior.max():.2g} (spread {spread:.2g})",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="lsi,lsi-hard")
    parser.add_argument("--precisions", default="tf32,bfloat16")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--starts", type=int, default=64)
    parser.add_argument("--check", type=int, default=32, help="members; 0 skips it")
    parser.add_argument("--resolution", type=int, default=1024)
    parser.add_argument("--population", type=int, default=256)
    options = parser.parse_args()
    if jax.default_backend() == "cpu" and options.resolution > 64:
        parser.error("without a GPU, give --resolution 16 --population 16 --starts 2")
    generator, scorer = random_generator(options.resolution), random_scorer()
    for task in options.tasks.split(","):
        preset = PRESETS[task]
        settings = {
            **preset.algorithm_settings["squad_published"],
            "optimizer": optax.adam(0.1),
        }
        settings["population_size"] = options.population

        def problem_in(precision, preset=preset):
            return latent_space(
                generator,
                scorer,
                **preset.problem_settings,
                num_starts=options.starts,
                precision=precision,
            )

        problems = {p: problem_in(p) for p in options.precisions.split(",")}
        for precision, problem in problems.items():
            print(f"{task}, {precision}:", flush=True)
            solutions = measure(problem, settings, options.iterations)
        if options.check:
            problems["float32"] = problem_in("float32")
            print_effects(problems, solutions[: options.check])


if __name__ == "__main__":
    main()
