import inspect
from typing import Annotated, Any

import jax
import numpy as np
import optax
import pytest
from jaxtyping import Array, Float

from softqd import registry
from softqd.settings import (
    Example,
    File,
    FilePath,
    Kind,
    Setting,
    Spelled,
    describe,
    spelled,
)

FACTORIES = {**registry.PROBLEMS, **registry.ALGORITHMS}
ANY = {Kind.FLAG, Kind.COUNT, Kind.NUMBER, Kind.TEXT, Kind.NONE}


def of(annotation, **default):
    """What a factory says that has one argument of this type."""

    def factory(argument): ...

    parameter = inspect.Parameter(
        "argument",
        inspect.Parameter.KEYWORD_ONLY,
        annotation=annotation,
        **default,
    )
    factory.__signature__ = inspect.Signature([parameter])
    return describe(factory)["argument"]


@pytest.mark.parametrize(
    ("annotation", "kinds"),
    [
        (int, {Kind.COUNT}),
        (str | int, {Kind.TEXT, Kind.COUNT}),
        (bool, {Kind.FLAG}),
        (float | None, {Kind.NUMBER, Kind.NONE}),
        (Array | None, {Kind.NUMBERS, Kind.NONE}),
        (Float[Array, "n d"], {Kind.NUMBERS}),
        (Float[np.ndarray | Array, " n"], {Kind.NUMBERS}),
        (optax.GradientTransformation, {Kind.OPTIMIZER}),
        (float | optax.Schedule, {Kind.NUMBER, Kind.SCHEDULE}),
        (FilePath | None, {Kind.TEXT, Kind.NONE}),
        (Annotated[int, "many", Example("3")], {Kind.COUNT}),
        (inspect.Parameter.empty, ANY),
        (Any, ANY),
        ("OnlyForTypeCheckers", ANY),
        (list[int], set()),
        (object, set()),
    ],
)
def test_what_an_argument_may_be(annotation, kinds):
    assert of(annotation).kinds == kinds


def test_what_a_type_cannot_say():
    assert of(Annotated[str, Example("a face")] | None).example == "a face"
    assert of(str).example == "VALUE"
    assert of(FilePath).file == File()
    assert of(Annotated[str, File(("here",))] | None).file == File(("here",))
    assert of(str | None).file is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, 3),
        (0.5, 0.5),
        (False, False),
        ("logit", "logit"),
        (None, "none"),
        (spelled(optax.sgd, 0.1), "sgd(0.1)"),
        (optax.sgd(0.1), None),  # an object that cannot be spelled
        (np.zeros(3), None),
    ],
)
def test_defaults_as_a_configuration_spells_them(value, text):
    found = of(inspect.Parameter.empty, default=value)
    assert found.default == text
    assert not found.is_required
    assert of(int).is_required


def test_a_default_of_none_may_be_given_whatever_the_type_says():
    assert of(int, default=None).kinds == {Kind.COUNT, Kind.NONE}


def test_what_is_wanted_in_words():
    kinds = frozenset([Kind.NONE, Kind.NUMBER, Kind.TEXT])
    assert Setting(kinds).wanted == "a number, or a text, or none"


@pytest.mark.parametrize("name", FACTORIES)
def test_everything_registered_can_be_set(name):
    for key, setting in describe(FACTORIES[name]).items():
        assert setting.kinds or key == "problem"
        assert setting.is_required or setting.default is not None


def test_a_spelled_optimizer_is_the_optimizer():
    """Against optax's own, and readable where Python shows a signature."""
    mine, expected = spelled(optax.adam, 0.05), optax.adam(0.05)
    gradient = np.array([3.0, -4.0], np.float32)
    pair = [o.update(gradient, o.init(gradient))[0] for o in (mine, expected)]
    np.testing.assert_array_equal(*pair)
    assert jax.tree.structure(mine.init(1.0)) == jax.tree.structure(expected.init(1.0))
    signature = inspect.signature(registry.ALGORITHMS["cma_mega"])
    assert isinstance(signature.parameters["optimizer"].default, Spelled)
    assert "= adam(0.05)," in str(signature)
