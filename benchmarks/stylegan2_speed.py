"""StyleGAN2's synthesis: images per second, forward and with a gradient.

Usage: python benchmarks/stylegan2_speed.py [--resolution 1024] [--batch 8]

Full-size random weights; needs a GPU at 1024 pixels, `--resolution 64` does on a CPU.
Times are of jitted programs, after compilation, the weights being arguments.

The floor at 1024 pixels, for one image:

- arithmetic: 74 GMAC forward (printed: counted from the shapes) and as many backward,
  since no gradient of a weight is formed: 148 GFLOP each. A solution-step of SQUAD, a
  gradient and a re-evaluation, is three of them, 445 GFLOP. An H200 does at most about
  495 TFLOP/s in TF32 (data sheet) and 790 in bfloat16 (measured on a large matrix
  product): 0.90 and 0.56 ms;
- memory: the layers put out 131 M numbers, each written once and read once, and the
  half of them that is upsampled once more around the filter: 1.6 GB forward in float32;
  backward twice that, since cotangents and saved activations are both read. 6.4 GB a
  solution-step, 1.5 ms at the 4.3 TB/s of a copy, and half of that in bfloat16.

So memory is the floor: about 670 solution-steps a second in TF32 and 1,340 in bfloat16.
`benchmarks/lsi_speed.py`, CLIP included, did 201 and 313. Above the floor: the fine
layers have 32 and 64 channels, too few for the matrix units; gradients through
transposed convolutions run at strides; and elementwise work (modulation, filter, noise,
leaky ReLU) takes passes of its own where it is not fused with a neighbor.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from softqd.networks import stylegan2


def multiplications(params):
    """Multiply-adds of one image's synthesis, from the shapes."""
    total = 0
    for name, weight in params.items():
        if not name.startswith("synthesis") or weight.ndim != 4:
            continue
        side = int(name.split(".")[1][1:])
        # A transposed convolution multiplies once per input pixel.
        pixels = (side // 2) ** 2 if ".conv0." in name else side**2
        total += pixels * weight.size
    return total


def seconds_per_call(function, arguments, repeats):
    """Seconds to compile, and the median of several calls."""
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*arguments).compile()
    compile_seconds = time.perf_counter() - start
    jax.block_until_ready(compiled(*arguments))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - start)
    return compile_seconds, float(np.median(times))


def measure(params, ws, cotangent, precision, repeats):
    def forward(params, ws):
        return stylegan2.synthesis(params, ws, precision=precision)

    def with_gradient(params, ws, cotangent):
        image, pull = jax.vjp(lambda w: forward(params, w), ws)
        return image.mean(), pull(cotangent)[0]

    n = ws.shape[0]
    built, once = seconds_per_call(forward, (params, ws), repeats)
    built_too, both = seconds_per_call(with_gradient, (params, ws, cotangent), repeats)
    gmac = multiplications(params) / 1e9
    print(
        f"{precision:>8}: forward {n / once:.1f} images/s "
        f"({2e-3 * gmac * n / once:.1f} TFLOP/s), with gradient {n / both:.1f} "
        f"({4e-3 * gmac * n / both:.1f}), solution-steps {n / (once + both):.1f}/s; "
        f"compiled in {built:.1f} and {built_too:.1f} s",
        flush=True,
    )
    return jax.jit(forward)(params, ws)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--resolution", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    if jax.default_backend() == "cpu" and options.resolution > 256:
        parser.error("without a GPU, give --resolution 64")
    params = stylegan2.load(stylegan2.random_state(options.resolution))
    key, other = jax.random.split(jax.random.key(0))
    ws = stylegan2.mapping(params, jax.random.normal(key, (options.batch, 512)))
    shape = (options.batch, options.resolution, options.resolution, 3)
    cotangent = jax.random.normal(other, shape)
    size = sum(x.size for x in params.values())
    print(
        f"{jax.devices()[0].device_kind}: {options.resolution} pixels, "
        f"{size / 1e6:.1f} M parameters, {multiplications(params) / 1e9:.1f} GMAC"
    )
    images = {
        precision: measure(params, ws, cotangent, precision, options.repeats)
        for precision in ("tf32", "bfloat16", "float32")
    }
    scale = float(jnp.std(images["float32"]))
    for precision in ("tf32", "bfloat16"):
        off = float(jnp.max(jnp.abs(images[precision] - images["float32"])))
        print(f"{precision}: at most {off / scale:.2e} standard deviations off")


if __name__ == "__main__":
    main()
