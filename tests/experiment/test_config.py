import random
from pathlib import Path

import pytest

from softqd.experiment import config
from softqd.experiment.config import ConfigError
from softqd.ops.names import UnknownNameError
from softqd.registry import PRESETS

TINY_FACES = Path(__file__).parents[1] / "fixtures" / "faces"
# Instead of what would have to be fetched.
AT_HAND = {"ic": ["target=hopper"], "lsi-faces": [f"weights={TINY_FACES}"]}
# Others want weights or other packages, and have tests of their own.
NAMES = [n for n, p in PRESETS.items() if n not in ("lsi", "lsi-hard") and not p.extra]
NAMES += ["linear_projection"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_builds(name):
    found = config.with_settings(config.from_name(name), AT_HAND.get(name, []))
    problem, algorithm = config.build(found)
    assert algorithm.problem is problem
    assert problem.behavior_dim >= 1


@pytest.mark.parametrize(
    ("preset", "gamma_sq", "dim"),
    [("lp-easy", 0.1, 4), ("lp-medium", 0.5, 8), ("lp-hard", 1.0, 16)],
)
def test_published_settings(preset, gamma_sq, dim):
    """Paper, table of default parameters; its 16 neighbors count the solution."""
    found = config.from_name(preset, "squad_published")
    algorithm = dict(found["algorithm"])
    assert found["problem"] == {
        "name": "linear_projection",
        "behavior_dim": dim,
        "solution_dim": 1024,
    }
    assert found["run"]["iterations"] == 1000
    assert algorithm == {
        "name": "squad_published",
        "population_size": 1024,
        "batch_size": 64,
        "num_neighbors": 15,
        "gamma_sq": gamma_sq,
        "optimizer": "adam(0.05)",
        "transform": "logit",
        "repulsion_weight": 0.5,
        "protect_quality": False,
    }


@pytest.mark.parametrize(
    ("assignment", "table", "name", "value"),
    [
        ("gamma_sq=2", "algorithm", "gamma_sq", 2.0),
        ("gamma_sq=nearest", "algorithm", "gamma_sq", "nearest"),
        ("gamma_sq=[1, 2]", "algorithm", "gamma_sq", [1.0, 2.0]),
        ("protect_quality=True", "algorithm", "protect_quality", True),
        ("algorithm.batch_size=8", "algorithm", "batch_size", 8),
        ("problem.behavior_dim=2", "problem", "behavior_dim", 2),
        ("optimizer=sgd(0.1)", "algorithm", "optimizer", "sgd(0.1)"),
        (
            "optimizer=chain(clip(1.0), adam(cosine_decay_schedule(0.1, 100), b1=0.8))",
            "algorithm",
            "optimizer",
            "chain(clip(1.0), adam(cosine_decay_schedule(0.1, 100), b1=0.8))",
        ),
    ],
)
def test_settings_reach_their_argument(assignment, table, name, value):
    base = config.from_name("lp-easy", "squad_published")
    found = config.with_settings(base, [assignment])
    assert found[table][name] == value


@pytest.mark.parametrize(
    ("preset", "assignment", "wanted"),
    [
        ("ic", "target=me.png", "{here}/me.png"),
        ("ic", "target=hopper", "hopper"),  # a name, though there is such a folder
        ("ic", "target=/far/me.png", "/far/me.png"),
        ("ic", "target=none", "none"),
        ("ic", "target=", ""),
        ("ic", "target=~nobody-of-this-name/x", "~nobody-of-this-name/x"),
        ("lsi", "generator=linked.npz", "{here}/linked.npz"),  # not what it points at
        ("lsi", "scorer=1984", "{here}/1984"),
        ("lsi", "prompt=1984", "1984"),
        ("lsi", "prompt=me.png", "me.png"),
        ("lsi", "prompt=none", "none"),  # a word: it must have a prompt
        ("lsi", "prompt=True", "True"),
        ("lsi", "generator=None", "none"),  # nothing: it may have no path
        ("lsi", "generator=./none", "{here}/none"),
        ("lsi-faces", "weights=nets", "{here}/nets"),
    ],
)
def test_paths_mean_the_same_from_everywhere(
    monkeypatch, tmp_path, preset, assignment, wanted
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hopper").mkdir()
    (tmp_path / "blob").write_bytes(b"")
    (tmp_path / "linked.npz").symlink_to("blob")
    found = config.with_settings(config.from_name(preset), [assignment])["problem"]
    assert found[assignment.partition("=")[0]] == wanted.format(here=tmp_path)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("gama_sq=1", "unknown setting 'gama_sq'; did you mean 'gamma_sq'"),
        ("algorithm.behavior_dim=3", "unknown setting 'algorithm.behavior_dim'"),
        ("gamma_sq", "--set wants name=value; got 'gamma_sq'"),
        ("=3", "--set wants name=value"),
        ("population_size=1.5", "population_size must be a whole number; got 1.5"),
        ("population_size=true", "population_size must be a whole number; got True"),
        ("num_neighbors=many", "num_neighbors must be a whole number; got 'many'"),
        ("protect_quality=1", "protect_quality must be true or false; got 1"),
        ("optimizer=0.1", "optimizer must be an optax optimizer such as adam"),
        ("optimizer=adam", "optimizer 'adam' cannot be read"),
        ("optimizer=adm(0.1)", "unknown optax function 'adm'; did you mean 'adam'"),
        ("optimizer=adam(__import__('os'))", "unknown optax function '__import__'"),
        ("optimizer=adam(open)", "cannot be read"),
        ("optimizer=adam(nonsense=3)", "cannot be read"),
        ("optimizer=adam(**{'b1': 0.5})", "unexpected keyword argument"),
        ("optimizer=chain(1)", r"optimizer 'chain\(1\)' cannot be read"),
        ("optimizer=MultiSteps(1,2)", "cannot be read"),
        ("optimizer=constant_schedule(0.1)", "optimizer must be an optax optimizer"),
        ("optimizer=adam('fast')", "optimizer must be an optax optimizer"),
        ("optimizer=none", "optimizer must be an optax optimizer such as .* got None"),
        ("repulsion_weight=adam(0.1)", "repulsion_weight must be an optax schedule"),
        ("gamma_sq=constnt_schedule(1.0)", "did you mean 'constant_schedule'"),
        ("gamma_sq=constant_schedule([1, 2])", "gamma_sq must be an optax schedule"),
        ("gamma_sq=[[1], [2, 3]]", "gamma_sq must be a number, or a text, or a list"),
        ("gamma_sq=1" + 400 * "0", "gamma_sq must be a number"),
    ],
)
def test_bad_settings(assignment, message):
    base = config.from_name("lp-easy", "squad_published")
    with pytest.raises(ConfigError, match=message):
        config.with_settings(base, [assignment])


@pytest.mark.parametrize("setting", ["transform='logit'", "protect_quality=false"])
def test_files_of_the_published_form_under_its_old_name(tmp_path, setting):
    path = tmp_path / "old.toml"
    path.write_text(
        f"[problem]\nname='arm'\n[algorithm]\nname='squad'\ngamma_sq=0.1\n{setting}"
    )
    with pytest.raises(ConfigError, match='name = "squad_published" under'):
        config.from_file(path)
    base, text = config.from_name("arm"), setting.replace("'", "")
    with pytest.raises(ConfigError, match="--algorithm squad_published, or"):
        config.with_settings(base, [text])


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("batch_size=0", "batch_size must be a whole number at least 1"),
        ("gamma_sq=-1", "gamma_sq must be positive"),
        ("gamma_sq=close", "unknown gamma_sq rule 'close'"),
        ("transform=sqrt", "unknown transform 'sqrt'; use one of logit"),
        ("gamma_sq={[]:1}", r"unknown gamma_sq rule '\{\[\]:1\}'"),
        ("behavior_dim=5", "solution_dim must be a multiple of behavior_dim"),
        ("solution_dim=0", "solution_dim must be a whole number at least 1; got 0"),
        (
            "population_size=1000000000000",
            "population_size .* between 2 and 10{9}; got",
        ),
        ("solution_dim=1" + 400 * "0", "solution_dim .* between 1 and 10{9}; got 10"),
    ],
)
def test_settings_the_factory_refuses(assignment, message):
    base = config.from_name("lp-easy", "squad_published")
    changed = config.with_settings(base, [assignment])
    with pytest.raises(ConfigError, match=message):
        config.build(changed)


def test_lists_of_lists_reach_an_array():
    found = config.from_name("arm", "cma_mega")
    found = config.with_settings(found, ["centroids=[[0.25, 0.5], [1, 0]]", "cells=2"])
    assert found["algorithm"]["centroids"] == [[0.25, 0.5], [1.0, 0.0]]
    config.build(found)


# Next to nothing, too much, and what looks like something else.
ODD = [
    *("", " ", "none", "True", "0", "-1", "nan", "-inf", "1e999", "1e-320", "0x10"),
    *("9" * 30, "9" * 400, "9" * 5000, "0x" + "f" * 5000, "-" * 3000 + "1", "1j"),
    *("[]", "{}", "()", "(1,)", "[1, 'a']", "[[1], [2, 3]]", "[" * 500, "(" * 500),
    *("{[]: 1}", "...", "b'x'", "\0", "\ud800", "\n", "/", "~nobody/x", "[red]x"),
    *("adam", "adam(", "adam()", "adam([1])", "chain()", "chain(1)", "chain(1, 2)"),
    *("MultiSteps(1, 2)", "GradientTransformation(1, 2)", "polyak_sgd()", "adam(*[1])"),
    *("masked(adam(0.1), 1)", "tree.map(1)", "contrib.muon(0.1)", "lambda: 0"),
    *("constant_schedule('x')", "linear_schedule(1, 0, 0)", "join_schedules([1], [])"),
]


def odd_values(seed, num):
    """Values that nobody would type, the same ones for a seed."""
    rng = random.Random(seed)
    around = ["{}", "{}", "[{}]", "({},)", "adam({})", "sgd(0.1, {})", "chain({})"]
    for _ in range(num):
        letters = rng.choices("0123456789.e-+[](){},:'naif *_=|", k=rng.randint(1, 9))
        yield rng.choice(around).replace("{}", rng.choice([*ODD, "".join(letters)]))


@pytest.mark.parametrize(
    ("problem", "algorithm", "seed"),
    [("arm", "squad_published", 0), ("arm", "cma_mega", 1), ("sphere", "squad", 2)],
)
def test_odd_values_are_taken_or_refused(problem, algorithm, seed):
    """Never anything but a `ValueError`, whatever setting is given what."""
    base = config.from_name(problem, algorithm)
    if algorithm == "cma_mega":  # cells take long to find
        base = config.with_settings(base, ["shared_cells=false"])
    names = [k for t in ("problem", "algorithm") for k in base[t] if k != "name"]
    refused = 0
    for i, value in enumerate(odd_values(seed, 120)):
        try:
            config.build(
                config.with_settings(base, [f"{names[i % len(names)]}={value}"])
            )
        except ValueError:
            refused += 1
    assert refused > 60


def test_unknown_names():
    with pytest.raises(
        UnknownNameError, match="unknown problem 'lp-hrad'; did you mean 'lp-hard'"
    ):
        config.from_name("lp-hrad")
    with pytest.raises(
        UnknownNameError, match="unknown algorithm 'squid'; did you mean 'squad'"
    ):
        config.from_name("lp-hard", "squid")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("problem = ", "is not a TOML file"),
        ("problem = " + 2000 * "[", "is not a TOML file"),
        ("seed = " + 5000 * "9", "is not a TOML file"),
        ("run = 5\n[problem]\nname='arm'\n[algorithm]\nname='squad'", "run must be a"),
        (
            "[problem]\nname='arm'\nnum_joints={a=1}\n[algorithm]\nname='squad'",
            "num_joints must be a whole number; got {'a': 1}",
        ),
        (
            "[problem]\nname='arm'\n[algorithm]\nname='squad'\n[extra]",
            "'extra' is not known here",
        ),
        ("[problem]\nname='arm'", "'algorithm' is missing"),
        ("problem='x'\nalgorithm='y'", "problem must be a table; got 'x'"),
        (
            "[problem]\nname='arm'\n[algorithm]\nname='squad'\n[run]\nsed=1",
            "unknown setting 'sed'; did you mean 'seed'",
        ),
        (
            "[problem]\nname='arm'\n[algorithm]\nname='squad'\n[run]\nseed='a'",
            "seed must be a whole number",
        ),
        (
            "[problem]\nname='arm'\njoints=3\n[algorithm]\nname='squad'",
            "unknown setting 'joints'; did you mean 'num_joints'",
        ),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        config.from_file(path)


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="there is no configuration"):
        config.from_file(tmp_path / "nothing.toml")
