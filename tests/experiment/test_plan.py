from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import make_bowl

import softqd
from softqd.experiment.many.budget import Cost, cost_of, with_budgets
from softqd.experiment.many.plan import folder_of, methods_of, parse_seeds


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("3", [0, 1, 2]),
        ("2001-2003", [2001, 2002, 2003]),
        ("4,1", [4, 1]),
        ("7-7", [7]),
        ("1,4-6", [1, 4, 5, 6]),
    ],
)
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds
    assert parse_seeds(",".join(f"{seed}-{seed}" for seed in seeds)) == seeds


@pytest.mark.parametrize("text", ["", "0", "five", "3-1", "1,2,1", "-3", "1.5"])
def test_bad_seeds_are_refused(text):
    with pytest.raises(ValueError, match="seeds"):
        parse_seeds(text)


def test_the_smallest_preset_is_everyones_budget():
    _, methods = methods_of("lp-easy", ["squad", "dns", "cma_mega"], [])
    budget, methods = with_budgets(methods, None)
    # SQUAD 5 * 1024 + 1774 * 1152, DNS 1024 + 8000 * 128, CMA-MEGA 1900 * 15 * 36
    assert budget == 1024 + 8000 * 128
    for method in methods:
        assert method.config["run"]["evaluations"] == budget
        assert "iterations" not in method.config["run"]


def test_costs_are_what_runs_count():
    settings = ["squad.population_size=32"]
    _, methods = methods_of(make_bowl(), ["squad"], settings)
    assert cost_of(methods[0].algorithm) == Cost(5 * 32, 32 + 4)


def test_settings_reach_their_owner():
    settings = ["solution_dim=8", "squad.gamma_sq=0.25", "dns.num_neighbors=2"]
    problem, (squad, dns) = methods_of("lp-easy", ["squad", "dns"], settings)
    assert problem.sample is not None
    assert squad.config["problem"] == dns.config["problem"]
    assert squad.config["problem"]["solution_dim"] == 8
    assert squad.config["algorithm"]["gamma_sq"] == 0.25
    assert dns.config["algorithm"]["num_neighbors"] == 2
    assert squad.config["algorithm"]["num_neighbors"] == 8


def test_a_budget_below_one_iteration_leaves_a_method_out():
    settings = ["squad.population_size=64", "dns.population_size=8", "dns.batch_size=8"]
    _, methods = methods_of(make_bowl(), ["squad", "dns"], settings)
    _, (squad, dns) = with_budgets(methods, 100)
    assert squad.algorithm is None
    assert "320 + 72" in squad.error
    assert dns.algorithm is not None


def test_an_algorithm_without_gradients_to_follow_is_told_apart():
    """A simulator outside JAX can be evaluated, not differentiated."""

    def evaluate(x):
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        quality = jax.pure_callback(
            lambda x: np.float32(1.0), shape, x, vmap_method="sequential"
        )
        return quality, jax.nn.sigmoid(x[:2])

    sample = lambda key: jax.random.normal(key, (3,))  # noqa: E731
    problem = softqd.Problem(evaluate, sample, (0, 1), name="outside")
    names = ["squad_published", "dns_g", "toys:climb"]
    _, (squad, dns_g, climb) = with_budgets(methods_of(problem, names, [])[1], 10_000)
    for method in (squad, dns_g):
        assert method.algorithm is None
        assert method.error.startswith("it needs gradients, and evaluate of problem")
        assert "'outside' cannot be differentiated" in method.error
        assert method.error.endswith("use squad, dns or sep_cma_mae, which need none")
    assert climb.algorithm is not None
    methods = methods_of(problem, names[:2], [])[1]
    with pytest.raises(
        ValueError, match=r"no algorithm can run .* squad_published, dns_g: it"
    ):
        with_budgets(methods, None)


def test_one_algorithm_comes_with_several_settings(bowl):
    algorithms = ["squad", "wide=squad", "very-wide=squad"]
    settings = ["wide.gamma_sq=2", "very-wide.gamma_sq=9"]
    _, methods = methods_of(bowl, algorithms, settings)
    found = {m.name: m.config["algorithm"]["gamma_sq"] for m in methods}
    assert found == {"squad": "none", "wide": 2.0, "very-wide": 9.0}
    assert {m.config["algorithm"]["name"] for m in methods} == {"squad"}
    folders = [folder_of(Path("out"), m, 3).as_posix() for m in methods]
    assert folders[1] == "out/wide/seed_3"


@pytest.mark.parametrize(
    ("algorithms", "message"),
    [
        (["squad", "squad"], "name them, as in first=squad"),
        (["a=squad", "a=dns"], "duplicates"),
        (["=squad"], "as in wide=squad"),
        (["a/b=squad"], "as in wide=squad"),
        (["a="], "as in wide=squad"),
    ],
)
def test_labels_that_cannot_be_used(bowl, algorithms, message):
    with pytest.raises(ValueError, match=message):
        methods_of(bowl, algorithms, [])
