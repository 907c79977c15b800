"""The circle renderer of `softqd.ops.circles` as GPU kernels, forward and backward.

A program draws a tile of pixels, which stay in registers. It visits the circles from
the front, passes over those that do not reach the tile, and stops when nothing behind
can be seen any more. One warp per program: the sums over pixels that make the gradient
then need no synchronization. Written in Pallas, lowered through Triton; also runs in
Pallas' interpreter.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp

# Circles between two saved transmittances; they are unrolled.
SEGMENT = 8
# Pixels of a program: rows and columns, powers of two.
TILE = (8, 16)
WARPS = 1
# Edges below 2^-REACH are not drawn.
REACH = 32.0
# Circles are left out where less than 2^-40 of them would be seen even if any one of
# those before them were taken away: the derivative by an opaque circle's alpha needs
# what it hides. That is so once the product of 1 - min(a, cap) is below this.
_ALPHA_CAP = 1 - 2.0**-8
_MIN_SEEN = 2.0**-48


def forward(rows, canvas, scale, is_saving, interpret=False):
    """Picture (3, pixels), and what `backward` needs if ``is_saving``.

    Args:
        rows: Circles (k, 7) from the front, as `softqd.ops.circles` prepares them.
        canvas: A `softqd.ops.circles.Canvas`.
        scale: Factor on pixel coordinates.
        is_saving: Whether a backward pass will follow.
        interpret: Run in Pallas' interpreter.
    """
    across, down = _grid(canvas)
    size = math.prod(TILE)
    num_segments = -(-rows.shape[0] // SEGMENT)
    shapes = [jax.ShapeDtypeStruct((across * down, 3, size), rows.dtype)]
    if is_saving:
        saved_shape = (across * down, num_segments, size)
        shapes.append(jax.ShapeDtypeStruct(saved_shape, rows.dtype))
        shapes.append(jax.ShapeDtypeStruct((across * down,), jnp.int32))
    draw = functools.partial(_draw_tile, canvas=canvas, scale=scale)
    picture, *saved = _call(draw, "draw_circles", canvas, shapes, interpret)(_pad(rows))
    return _from_tiles(picture, canvas), saved


def backward(rows, saved, gradient, canvas, scale, interpret=False):
    """Gradient (k, 7) with respect to the rows, from that of the picture."""
    through, counts = saved
    shape = (through.shape[0], 7, through.shape[1] * SEGMENT)
    shapes = [jax.ShapeDtypeStruct(shape, rows.dtype)]
    undo = functools.partial(_undo_tile, canvas=canvas, scale=scale)
    call = _call(undo, "undo_circles", canvas, shapes, interpret)
    (parts,) = call(_pad(rows), through, counts, _to_tiles(gradient, canvas))
    ln2 = math.log(2)
    factors = jnp.array([2 * ln2, 2 * ln2, ln2, 1, 1, 1, 1], rows.dtype)
    return (parts.sum(0) * factors[:, None]).T[: rows.shape[0]]


def _call(body, name, canvas, shapes, interpret):
    from jax.experimental import pallas as pl  # half a second, on GPUs only
    from jax.experimental.pallas import triton as plgpu

    def kernel(*refs):
        body(pl.program_id(0), _edge(interpret), *refs)

    return pl.pallas_call(
        kernel,
        grid=(math.prod(_grid(canvas)),),
        out_shape=shapes,
        interpret=interpret,
        name=name,
        compiler_params=None if interpret else plgpu.CompilerParams(num_warps=WARPS),
    )


def _grid(canvas):
    """Tiles across and down."""
    return -(-canvas.width // TILE[1]), -(-canvas.height // TILE[0])


def _to_tiles(picture, canvas):
    """From (3, pixels) to (tiles, 3, pixels of a tile), filled up with zeros."""
    across, down = _grid(canvas)
    (rows, columns), (height, width) = TILE, canvas[:2]
    picture = jnp.pad(
        picture.reshape(3, height, width),
        ((0, 0), (0, down * rows - height), (0, across * columns - width)),
    )
    tiles = picture.reshape(3, down, rows, across, columns).transpose(1, 3, 0, 2, 4)
    return tiles.reshape(across * down, 3, rows * columns)


def _from_tiles(tiles, canvas):
    """From (tiles, 3, pixels of a tile) to (3, pixels)."""
    (across, down), (rows, columns) = _grid(canvas), TILE
    picture = tiles.reshape(down, across, 3, rows, columns).transpose(2, 0, 3, 1, 4)
    picture = picture.reshape(3, down * rows, across * columns)
    return picture[:, : canvas.height, : canvas.width].reshape(3, -1)


def _pad(rows):
    """Whole segments of rows of eight: the last holds the capped alpha."""
    rows = jnp.concatenate([rows, jnp.minimum(rows[:, 6:], _ALPHA_CAP)], 1)
    return jnp.pad(rows, ((0, -rows.shape[0] % SEGMENT), (0, 0)))


def _edge(interpret):
    """1 / (1 + 2^x): on the GPU by its two special functions, about 2 ulp each."""
    if interpret:
        return lambda x: 1.0 / (1.0 + jnp.exp2(x))
    from jax.experimental.pallas import triton as plgpu

    asm = """{ .reg .f32 t;
        ex2.approx.ftz.f32 t, $1;
        add.ftz.f32 t, t, 0f3F800000;
        rcp.approx.ftz.f32 $0, t; }"""

    def edge(x):
        (out,) = plgpu.elementwise_inline_asm(
            asm,
            args=[x],
            constraints="=f,f",
            pack=1,
            result_shape_dtypes=[jax.ShapeDtypeStruct(x.shape, x.dtype)],
        )
        return out

    return edge


def _place(tile, canvas, scale):
    """Coordinates of a tile's pixels, and whether a circle reaches the tile."""
    (rows, columns), (across, _) = TILE, _grid(canvas)
    left, top = (tile % across) * columns, (tile // across) * rows
    pixel = jnp.arange(rows * columns)
    x = scale * (left + pixel % columns).astype(jnp.float32)
    y = scale * (top + pixel // columns).astype(jnp.float32)
    half_x, half_y = scale * (columns - 1) / 2, scale * (rows - 1) / 2
    middle_x = scale * left.astype(jnp.float32) + half_x
    middle_y = scale * top.astype(jnp.float32) + half_y

    def is_reached(circle):
        dx = jnp.maximum(jnp.abs(circle[0] - middle_x) - half_x, 0.0)
        dy = jnp.maximum(jnp.abs(circle[1] - middle_y) - half_y, 0.0)
        return dx * dx + dy * dy - circle[2] < REACH

    return x, y, is_reached


def _draw_tile(tile, edge_of, rows, picture, *saved, canvas, scale):
    """One tile of the picture; arguments are references."""
    x, y, is_reached = _place(tile, canvas, scale)
    num_segments = rows.shape[0] // SEGMENT

    def is_seen(carry):
        index, seen, *_ = carry
        return (index < num_segments) & (seen.max() > _MIN_SEEN)

    def draw(carry):
        index, *state = carry
        if saved:
            saved[0][tile, index, :] = state[1]
        for i in range(SEGMENT):
            circle = [rows[index * SEGMENT + i, k] for k in range(8)]
            one = functools.partial(draw_one, circle)
            state = jax.lax.cond(is_reached(circle), one, lambda *s: s, *state)
        return index + 1, *state

    def draw_one(circle, seen, through, *channels):
        dx, dy = x - circle[0], y - circle[1]
        edge = edge_of(dx * dx + dy * dy - circle[2])
        weight = through * (circle[6] * edge)
        channels = [c + weight * circle[3 + k] for k, c in enumerate(channels)]
        return seen - seen * (circle[7] * edge), through - weight, *channels

    zero = jnp.zeros_like(x)
    start = (jnp.int32(0), zero + 1.0, zero + 1.0, zero, zero, zero)
    count, _, through, *channels = jax.lax.while_loop(is_seen, draw, start)
    for k, channel in enumerate(channels):
        picture[tile, k, :] = channel + through * canvas.background[k]
    if saved:
        saved[1][tile] = count


def _undo_tile(tile, edge_of, rows, through, counts, gradient, out, *, canvas, scale):
    """One tile's part of the gradient; arguments are references."""
    x, y, is_reached = _place(tile, canvas, scale)
    given = [gradient[tile, k, :] for k in range(3)]
    count = counts[tile]

    def undo(step, behind):
        start = (count - 1 - step) * SEGMENT
        circles = [[rows[start + i, k] for k in range(7)] for i in range(SEGMENT)]
        fronts, edges = [through[tile, count - 1 - step, :]], []
        for circle in circles:
            one = functools.partial(cover_one, circle)
            none = lambda front: (front, jnp.zeros_like(front))  # noqa: E731
            front, edge = jax.lax.cond(is_reached(circle), one, none, fronts[-1])
            fronts.append(front)
            edges.append(edge)
        for i in reversed(range(SEGMENT)):
            one = functools.partial(undo_one, circles[i], start + i)
            none = functools.partial(clear_one, start + i)
            reached = is_reached(circles[i])
            behind = jax.lax.cond(reached, one, none, fronts[i], edges[i], behind)
        return behind

    def cover_one(circle, front):
        dx, dy = x - circle[0], y - circle[1]
        edge = edge_of(dx * dx + dy * dy - circle[2])
        return front - front * (circle[6] * edge), edge

    def undo_one(circle, j, front, edge, behind):
        opacity = circle[6] * edge
        excess = sum(g * circle[3 + k] for k, g in enumerate(given)) - behind
        slope = front * excess * edge
        to_exponent = slope * (circle[6] - opacity)
        out[tile, 0, j] = (to_exponent * (x - circle[0])).sum()
        out[tile, 1, j] = (to_exponent * (y - circle[1])).sum()
        out[tile, 2, j] = to_exponent.sum()
        for k in range(3):
            out[tile, 3 + k, j] = (front * opacity * given[k]).sum()
        out[tile, 6, j] = slope.sum()
        return behind + opacity * excess

    def clear_one(j, front, edge, behind):
        for k in range(7):
            out[tile, k, j] = 0.0
        return behind

    def clear(j, _):
        clear_one(j, None, None, None)

    behind = sum(g * canvas.background[k] for k, g in enumerate(given))
    jax.lax.fori_loop(0, count, undo, behind)
    jax.lax.fori_loop(count * SEGMENT, rows.shape[0], clear, None)
