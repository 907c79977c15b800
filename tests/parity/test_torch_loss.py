"""SquadLoss against the parts of `softqd.squad`, and what it does by itself."""

import doctest
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softqd
from softqd.algorithms import _bandwidth, _squad
from softqd.algorithms._climb import Standing, climb
from softqd.objective import batch_objective
from softqd.ops.level import first_level
from softqd.types import Evaluation

torch = pytest.importorskip("torch")
from softqd.interop import _torch_loss  # noqa: E402
from softqd.interop.torch import SquadLoss  # noqa: E402

pytestmark = pytest.mark.torch_parity
N, D, K, STEPS = 60, 3, 8, 50


@pytest.fixture(autouse=True)
def one_thread():
    """Small arrays do not need more, and tests share the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def problem_of(bounds, level=None):
    """A solution is its own quality and behavior: gradients are cotangents."""
    return softqd.Problem(
        lambda x: (x[0], x[1:]), behavior_bounds=bounds, quality_level=level
    )


def rows(seed, num_twins=0):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(size=(N, 1)), rng.random((N, D))], axis=1)
    x[N - num_twins :, 1:] = x[0, 1:]
    return x


def unit_length(x):
    return x / np.sqrt((x**2).mean())


def climbed_at(problem, x, before, gamma_sq):
    level = first_level(problem, jnp.asarray(before[:, 0]))
    standing = Standing(
        Evaluation(jnp.asarray(before[:, 0]), jnp.asarray(before[:, 1:])),
        level,
        jnp.asarray(gamma_sq),
        jnp.asarray(
            torch.randn((N, D), generator=torch.Generator().manual_seed(0))
        ).astype(x.dtype),
    )
    key = jax.random.key(0)
    return climb(problem, standing, jnp.asarray(x), key, K, N), level


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), None, ([0, 0, -np.inf], [1, 2, np.inf])]
)
@pytest.mark.parametrize("num_twins", [0, 12])
def test_values_gradients_and_bandwidth_are_those_of_squad(x64, bounds, num_twins):
    """Three calls: at the start, and after two moves that leave quality as it is."""
    problem, loss = problem_of(bounds), SquadLoss(bounds, num_steps=STEPS)
    steered = _bandwidth.steered_bandwidth(0.12, K, N)
    first = before = rows(0, num_twins)
    to_z = _bandwidth.coordinates(problem, jnp.asarray(first[:, 1:]))
    gamma_sq = steered.init(to_z(jnp.asarray(first[:, 1:])))
    for step, x in enumerate((first, rows(1), rows(2))):
        x[:, 0] = first[:, 0]
        given = torch.tensor(x, requires_grad=True)
        found = loss(given[:, 0], given[:, 1:])
        found.backward()
        climbed, level = climbed_at(problem, x, before, gamma_sq)
        np.testing.assert_allclose(
            unit_length(-given.grad.numpy()),
            np.asarray(climbed.gradient),
            rtol=1e-5,
            atol=1e-7,
        )
        quality, z = jnp.asarray(x[:, 0]) - level, climbed.z
        root = jnp.sqrt(jnp.maximum(quality, 0))
        widths = jnp.full(N, gamma_sq)
        plain = (quality, z, jnp.arange(N), z, root, widths, K, 1.0, True)
        expected = -batch_objective(*plain) / N
        np.testing.assert_allclose(found.item(), expected, rtol=1e-5)
        overlap = _bandwidth.mean_overlap(climbed.overlap)
        progress = _squad.progress_at(step, STEPS)
        gamma_sq = steered.update(gamma_sq, overlap, progress)
        np.testing.assert_allclose(loss.gamma_sq.item(), gamma_sq, rtol=1e-5)
        before = x


@pytest.mark.parametrize("level", [None, -3.0])
def test_single_precision_is_as_close(level):
    x = rows(0).astype(np.float32)
    loss = SquadLoss((0, 1), num_steps=STEPS, quality_level=level)
    given = torch.tensor(x, requires_grad=True)
    loss(given[:, 0], given[:, 1:]).backward()
    problem = problem_of((0.0, 1.0), level)
    to_z = _bandwidth.coordinates(problem, jnp.asarray(x[:, 1:]))
    steered = _bandwidth.steered_bandwidth(0.12, K, N)
    gamma_sq = steered.init(to_z(jnp.asarray(x[:, 1:])))
    climbed, found_level = climbed_at(problem, x, x, gamma_sq)
    np.testing.assert_allclose(loss.level.item(), found_level, rtol=1e-6)
    np.testing.assert_allclose(
        unit_length(-given.grad.numpy()), np.asarray(climbed.gradient), atol=1e-5
    )


def test_nothing_of_jax_runs_after_the_first_call(monkeypatch):
    loss = SquadLoss((0, 1))
    x = torch.rand(16, 3)
    loss(x[:, 0], x)
    for module in ("jnp", "first_gamma_sq", "level_of"):
        monkeypatch.setattr(_torch_loss, module, None)
    loss(x[:, 0], x)


def test_state_goes_on_where_it_was(tmp_path):
    x = [
        torch.rand(16, 3, generator=torch.Generator().manual_seed(i)) for i in range(4)
    ]
    loss = SquadLoss((0, 1), num_steps=9)
    values = [loss(x_i[:, 0], x_i).item() for x_i in x]
    again = SquadLoss((0, 1), num_steps=9)
    for x_i in x[:2]:
        again(x_i[:, 0], x_i)
    torch.save(again.state_dict(), tmp_path / "state.pt")
    other = torch.nn.ModuleDict({"loss": SquadLoss((0, 1), num_steps=9)})
    state = torch.load(tmp_path / "state.pt")
    other.load_state_dict({f"loss.{name}": value for name, value in state.items()})
    assert [other["loss"](x_i[:, 0], x_i).item() for x_i in x[2:]] == values[2:]


def test_evaluation_mode_changes_nothing():
    loss = SquadLoss((0, 1)).eval()
    x = torch.rand(16, 3)
    with pytest.raises(ValueError, match=r"must be in training mode; call \.train\(\)"):
        loss(x[:, 0], x)
    loss.train()(x[:, 0], x)
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    loss.eval()(x[:8, 0], x[:8])
    assert all(torch.equal(loss.state_dict()[name], before[name]) for name in before)


def test_rows_that_are_not_finite_take_no_part():
    x = torch.rand(20, 3, dtype=torch.float64)
    few, all_of_them = SquadLoss((0, 1)), SquadLoss((0, 1))
    y = torch.cat([x, torch.full((1, 3), torch.nan), torch.rand(1, 3)]).double()
    y[21, 0] = torch.inf
    for _ in range(2):
        y.requires_grad_().grad = None
        found = all_of_them(y[:, 0], y)
        found.backward()
        assert found.item() == pytest.approx(few(x[:, 0], x).item(), rel=1e-9)
        assert y.grad[:20].isfinite().all()
        assert (y.grad[20:] == 0).all()
    bad = torch.full((3, 3), torch.nan)
    assert math.isnan(few(bad[:, 0], bad).item())  # and it goes on afterwards
    assert math.isfinite(few(x[:, 0], x).item())


@pytest.mark.parametrize("num_twins", [6, 2])
def test_a_shared_place_is_left(num_twins):
    x = torch.full((num_twins, 2), 0.5, requires_grad=True)
    SquadLoss((0, 1))(torch.ones(num_twins), x).backward()
    directions = x.grad / x.grad.norm(dim=1, keepdim=True)
    assert len(directions.unique(dim=0)) == num_twins


@pytest.mark.parametrize(
    ("quality", "behavior", "message"),
    [
        (torch.ones(3, 1), torch.ones(3, 2), r"\(n,\) .* got \(3, 1\) and \(3, 2\)"),
        (torch.ones(3), torch.ones(4, 2), r"same n; got \(3,\) and \(4, 2\)"),
        (torch.ones(1), torch.ones(1, 2), "at least 2 solutions and 1 behavior"),
        (torch.ones(2), torch.ones(2, 0), "at least 2 solutions and 1 behavior"),
        (torch.full((2,), torch.nan), torch.ones(2, 2), "2 .* finite; got 0"),
    ],
)
def test_populations_that_cannot_begin(quality, behavior, message):
    with pytest.raises(ValueError, match=message):
        SquadLoss()(quality, behavior)


def test_settings_and_other_sizes():
    for wrong, message in (
        ({"overlap": 0.0}, "overlap must be a positive number"),
        ({"num_steps": 0}, "num_steps must be a whole number at least 1"),
        ({"num_neighbors": 0}, "num_neighbors must be a whole number"),
        ({"behavior_bounds": (1, 0)}, "behavior_bounds must be"),
        ({"quality_level": math.nan}, "quality_level must be a finite number"),
    ):
        with pytest.raises(ValueError, match=message):
            SquadLoss(**wrong)
    loss = SquadLoss()
    for n in (5, 30, 2):  # batches may be of any size
        x = torch.rand(n, 3)
        assert loss(x[:, 0], x).isfinite()
    with pytest.raises(ValueError, match="behavior has 2 columns, and had 3"):
        loss(torch.ones(4), torch.ones(4, 2))


def arm(x):
    """The planar arm of `softqd.problems.arm`, in torch."""
    angle = x.cumsum(1)
    behavior = torch.stack([angle.cos().mean(1), angle.sin().mean(1)], dim=1)
    return 1.0 - x.std(1, correction=0), behavior


def test_a_population_spreads_and_keeps_its_quality():
    torch.manual_seed(0)
    x = (0.3 * torch.randn(64, 6)).requires_grad_()
    loss = SquadLoss((-1, 1), num_steps=200)
    optimizer = torch.optim.Adam([x], lr=0.03)
    score = lambda: softqd.metrics.quality_vendi_score(  # noqa: E731
        *(t.detach().numpy() for t in (arm(x)[0].relu(), (arm(x)[1] + 1) / 2))
    )
    before = score()
    for _ in range(200):
        optimizer.zero_grad()
        loss(*arm(x)).backward()
        optimizer.step()
    assert score() > 2 * before
    assert arm(x)[0].mean() > 0.7


def test_doctests():
    assert doctest.testmod(_torch_loss).failed == 0
