"""CLIP: equal to transformers on the committed fixture, and refusals."""

import json
import shutil
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from softqd.networks import clip

pytestmark = pytest.mark.networks

FOLDER = Path(__file__).parents[1] / "fixtures" / "clip_tiny"


@pytest.fixture(scope="module")
def model():
    return clip.load(FOLDER)


@pytest.fixture(scope="module")
def expected():
    return np.load(FOLDER / "expected.npz")


@pytest.fixture
def folder(tmp_path):
    """A copy that may be spoiled."""
    return Path(shutil.copytree(FOLDER, tmp_path / "clip"))


def assert_near(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def spoil_config(folder, tower, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config[f"{tower}_config"] |= changes
    path.write_text(json.dumps(config))


# --- equal to transformers ------------------------------------------------------------


def test_head_sizes_of_the_fixture_are_unusual(model):
    towers = (model.config.vision, model.config.text)
    assert [t.hidden_size // t.num_attention_heads for t in towers] == [8, 10]


def test_image_features(model, expected):
    found = clip.image_features(model, expected["pixels"])
    assert_near(found, expected["image_features"])


def test_text_features(model, expected):
    found = clip.text_features(model, expected["tokens"])
    assert_near(found, expected["text_features"])


def test_pixel_gradient(model, expected):
    def projected(pixels):
        features = clip.image_features(model, pixels)
        unit = features / jnp.linalg.norm(features, axis=-1, keepdims=True)
        return (unit * expected["weights"]).sum()

    assert_near(jax.grad(projected)(expected["pixels"]), expected["pixel_gradient"])


def test_one_image_at_a_time_with_weights_as_arguments(model, expected):
    @jax.jit
    def each(model, pixels):
        return jax.vmap(lambda x: clip.image_features(model, x[None])[0])(pixels)

    found = each(clip.image_tower(model), expected["pixels"])
    assert_near(found, expected["image_features"])


@pytest.mark.parametrize("files", ["tokenizer.json", "vocab.json and merges.txt"])
def test_tokens_of_awkward_prompts(folder, expected, files):
    if files != "tokenizer.json":
        (folder / "tokenizer.json").unlink()
    prompts = expected["prompts"].tolist()
    tokens = clip.tokenize(clip.load_tokenizer(folder), prompts)
    for prompt, found, wanted in zip(prompts, tokens, expected["tokens"], strict=True):
        assert found.tolist() == wanted.tolist(), prompt


def test_truncation_in_the_tokenizer_file_is_not_obeyed(folder):
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["truncation"] = {
        "direction": "Right",
        "max_length": 5,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    path.write_text(json.dumps(tokenizer))
    assert (clip.tokenize(folder, ["a a a a a a a"])[0] == 320).sum() == 7


def test_padding_does_not_matter_to_the_text_features(model, expected):
    short = clip.text_features(model, expected["tokens"][:3, :12])
    assert_near(short, expected["text_features"][:3])


def test_end_token_of_old_configurations(folder, expected):
    """They say 2, and mean the highest id."""
    spoil_config(folder, "text", eos_token_id=2)
    found = clip.text_features(clip.load(folder), expected["tokens"])
    assert_near(found, expected["text_features"])


def test_half_precision_and_buffers_of_old_files(folder, expected):
    path = folder / "model.safetensors"
    arrays = {k: v.astype(np.float16) for k, v in load_file(path).items()}
    arrays["text_model.embeddings.position_ids"] = np.arange(77)[None]
    save_file(arrays, path)
    model = clip.load(folder)
    assert {x.dtype.name for x in jax.tree.leaves(model)} == {"float32"}
    found = clip.image_features(model, expected["pixels"])
    np.testing.assert_allclose(found, expected["image_features"], atol=0.05)


def test_gelu_models(folder, expected):
    """With the exact GELU, features are others, by the difference of the two curves."""
    spoil_config(folder, "vision", hidden_act="gelu")
    found = clip.image_features(clip.load(folder), expected["pixels"])
    difference = np.abs(found - expected["image_features"]).max()
    assert 1e-3 < difference < 0.5


def test_preprocess_equals_the_published_pipeline():
    """Image in [-1, 1], resized, then (x + 1) / 2, then normalized, not clipped."""
    image = 1.5 * jax.random.normal(jax.random.key(0), (2, 40, 40, 3))
    small = jax.image.resize(image, (2, 16, 16, 3), "bicubic", antialias=True)
    mean = np.array([0.48145466, 0.4578275, 0.40821073])
    std = np.array([0.26862954, 0.26130258, 0.27577711])
    wanted = ((np.asarray(small) + 1) / 2 - mean) / std
    np.testing.assert_allclose(
        clip.preprocess((image + 1) / 2, size=16), wanted, atol=1e-5
    )


# --- refusals -------------------------------------------------------------------------


def rewrite(folder, change):
    path = folder / "model.safetensors"
    arrays = load_file(path)
    change(arrays)
    save_file(arrays, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("logit_scale"), "missing: logit_scale"),
        (lambda a: a.update(surplus=np.zeros(2)), "extra: surplus"),
        (
            lambda a: a.update({"visual_projection.weight": np.zeros((24, 12))}),
            r"misshapen: visual_projection.weight \(24, 12\) instead of \(12, 24\)",
        ),
        (
            lambda a: [a.pop(k) for k in list(a) if k.startswith("text_model")],
            r"missing: text_model.* and 49 more",
        ),
    ],
)
def test_wrong_weights(folder, change, message):
    rewrite(folder, change)
    with pytest.raises(ValueError, match=rf"model\.safetensors does not.*{message}"):
        clip.load(folder)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.float32(np.nan), "logit_scale holds values that are not finite"),
        (np.float64(1e300), "logit_scale holds values that are not finite"),
        (np.int32(1), "logit_scale holds int32, expected floats"),
    ],
)
def test_values_that_are_no_weights(folder, value, message):
    rewrite(folder, lambda arrays: arrays.update(logit_scale=np.asarray(value)))
    with pytest.raises(ValueError, match=rf"model\.safetensors: {message}"):
        clip.load(folder)


def test_truncated_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read.*cut off"):
        clip.load(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_missing_files(folder, name):
    (folder / name).unlink()
    with pytest.raises(
        ValueError, match=rf"there is no file .*{name}; expected a CLIP"
    ):
        clip.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"model_type": "siglip"}', "is not of a CLIP model"),
        ('{"model_type": "clip"}', "is not of a CLIP model"),
    ],
)
def test_wrong_configurations(folder, text, message):
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=rf"config\.json {message}"):
        clip.load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_attention_heads": 7}, "hidden_size 24 is not a multiple"),
        ({"hidden_act": "relu"}, "hidden_act must be quick_gelu or gelu"),
        ({"num_attention_heads": 0}, "num_attention_heads must be a whole number, at"),
        ({"hidden_size": "24"}, "hidden_size must be a whole number, .*; got '24'"),
        ({"patch_size": 0}, "patch_size must be a whole number, at least 1; got 0"),
        ({"patch_size": 999}, "patch_size 999 is larger than image_size 32"),
        ({"layer_norm_eps": None}, "layer_norm_eps must be a positive number"),
    ],
)
def test_impossible_towers(folder, changes, message):
    spoil_config(folder, "vision", **changes)
    with pytest.raises(ValueError, match=message):
        clip.load(folder)


def test_sizes_are_named_as_in_the_file(folder):
    spoil_config(folder, "text", eos_token_id=[640])
    with pytest.raises(ValueError, match=r"config\.json: eos_token_id must be a whole"):
        clip.load(folder)


def test_wrong_tokenizers(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be read"):
        clip.load_tokenizer(folder)
    (folder / "tokenizer.json").unlink()
    whole = (folder / "vocab.json").read_text()
    (folder / "vocab.json").write_text(whole[:-20])
    with pytest.raises(
        ValueError, match=r"vocab\.json with merges\.txt cannot be read"
    ):
        clip.load_tokenizer(folder)
    (folder / "merges.txt").unlink()
    with pytest.raises(ValueError, match=r"there is no file .*merges\.txt"):
        clip.load_tokenizer(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eos_token_id": 7}, r"ends texts with token \d+, .* looks for 7"),
        ({"vocab_size": 600}, r"tokens up to \d+, and config.json a vocab_size of 600"),
    ],
)
def test_tokenizers_of_other_models(folder, changes, message):
    tokenizer, config = clip.load_tokenizer(folder), clip.load(folder).config
    clip.check_tokenizer(tokenizer, config, folder)
    spoil_config(folder, "text", eos_token_id=2)
    clip.check_tokenizer(tokenizer, clip.load(folder).config, folder)
    fields = {"eos_token_id": "end_token", "vocab_size": "vocab_size"}
    spoiled = config._replace(**{fields[k]: v for k, v in changes.items()})
    with pytest.raises(ValueError, match=message):
        clip.check_tokenizer(tokenizer, spoiled, folder)


@pytest.mark.parametrize(
    ("package", "call"),
    [("safetensors", clip.load), ("tokenizers", clip.load_tokenizer)],
)
def test_missing_packages(monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"need .*{package}.* \"softqd\[lsi\]\""):
        call(FOLDER)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([""], "prompt must be a text that is not empty; got ''"),
        (["a", " \n"], "prompt must be a text that is not empty"),
        (["photo " * 76], r"prompt 'photo .* has 78 tokens.* CLIP reads 77; shorten"),
        ("a photo", "prompts must be a list of texts"),
    ],
)
def test_wrong_prompts(prompts, message):
    with pytest.raises(ValueError, match=message):
        clip.tokenize(FOLDER, prompts)


def test_the_longest_prompt_passes():
    assert clip.tokenize(FOLDER, ["photo " * 75]).shape == (1, 77)


def test_images_of_another_size(model):
    with pytest.raises(ValueError, match=r"expected \(n, 32, 32, 3\): call preprocess"):
        clip.image_features(model, jnp.zeros((1, 16, 16, 3)))
