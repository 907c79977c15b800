import sys

import pytest

import softqd
from softqd.experiment import config as configs
from softqd.experiment.own import own_factory

MODULE = """
import optax
import softqd
from softqd.settings import FilePath

def plain(dim=4, scale: float = 1.0):
    return softqd.problems.sphere(solution_dim=dim)

ready = softqd.problems.sphere(solution_dim=6)

def hinted(path: FilePath | None = None, label: str = None, rate: "Unknown" = 0.5,
           optimizer: optax.GradientTransformation = optax.sgd(0.1)):
    assert path is None or path.startswith("/")
    assert label is None
    return ready

def wrong():
    return 3
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A module in the current folder."""
    (tmp_path / "own_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere", *sys.path])
    yield
    sys.modules.pop("own_module", None)


def test_a_factory_takes_settings():
    config = configs.from_name("own_module:plain")
    assert config["problem"] == {"name": "own_module:plain", "dim": 4, "scale": 1.0}
    config = configs.with_settings(config, ["dim=8"])
    problem, algorithm = configs.build(config)
    assert problem.sample is not None
    assert algorithm.name == "squad"
    with pytest.raises(ValueError, match="unknown setting 'dom'; did you mean 'dim'"):
        configs.with_settings(config, ["dom=8"])
    with pytest.raises(ValueError, match="scale must be a number"):
        configs.with_settings(config, ["scale=large"])


def test_a_factory_with_types():
    """Defaults that cannot be spelled stay its own; None may be what a type forbids."""
    name = "own_module:hinted"
    config = configs.from_name(name)
    expected = {"name": name, "path": "none", "label": "none", "rate": 0.5}
    assert config["problem"] == expected
    configs.build_problem(config)
    config = configs.with_settings(config, ["path=here", "problem.optimizer=sgd(1.0)"])
    assert config["problem"]["optimizer"] == "sgd(1.0)"
    configs.build_problem(config)
    with pytest.raises(ValueError, match="path must be a text, or none; got 3"):
        configs.complete({**config, "problem": {"name": name, "path": 3}})


def test_a_ready_problem_is_taken_as_it_is():
    problem = configs.build_problem(configs.from_name("own_module:ready"))
    assert isinstance(problem, softqd.Problem)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_modul:plain", "cannot import 'own_modul'"),
        ("own_module:plane", "did you mean 'own_module:plain'"),
        (":plain", "cannot import ''"),
    ],
)
def test_wrong_names_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        own_factory("problem", name)


def test_what_is_no_problem_is_refused():
    with pytest.raises(ValueError, match=r"must return a softqd\.Problem; got 3"):
        configs.build(configs.from_name("own_module:wrong"))
