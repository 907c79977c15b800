from pathlib import Path

import pytest

from softqd.experiment import config
from softqd.experiment.config import ConfigError
from softqd.registry import PRESETS, UnknownNameError

TINY_FACES = Path(__file__).parents[1] / "fixtures" / "faces"
# Instead of what would have to be fetched.
AT_HAND = {"ic": ["target=hopper"], "lsi-faces": [f"weights={TINY_FACES}"]}
# Others want weights, and have tests of their own.
NAMES = [*(name for name in PRESETS if name not in ("lsi", "lsi-hard"))]
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
        ("batch_size=4096", "batch_size must be a whole number between 1 and 1024"),
        ("gamma_sq=-1", "gamma_sq must be positive"),
        ("gamma_sq=close", "unknown gamma_sq rule 'close'"),
        ("transform=sqrt", "unknown transform 'sqrt'; use one of logit"),
        ("behavior_dim=5", "solution_dim must be a multiple of behavior_dim"),
    ],
)
def test_settings_the_factory_refuses(assignment, message):
    base = config.from_name("lp-easy", "squad_published")
    changed = config.with_settings(base, [assignment])
    with pytest.raises(ConfigError, match=message):
        config.build(changed)


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
