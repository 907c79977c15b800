"""CLIP against transformers' PyTorch model, live; with the extra 'torch-parity'."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from softqd.networks import clip

pytestmark = [
    pytest.mark.torch_parity,
    # Of torch and transformers, about themselves.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FOLDER = Path(__file__).parents[1] / "fixtures" / "clip_tiny"
NUM_TOKENS = 300
# Hidden size, intermediate size, layers, heads; image size and patch size.
SIZES = {
    "head size 6": ((18, 30, 3, 3), (32, 8)),
    "head size 64": ((128, 512, 2, 2), (64, 16)),
    "ViT-B/32": ((768, 3072, 12, 12), (224, 32)),
}


@pytest.fixture(scope="module", params=SIZES)
def pair(request, tmp_path_factory):
    """A random PyTorch model, and ours from what it saves."""
    tower, (image_size, patch_size) = SIZES[request.param]
    names = ("hidden_size", "intermediate_size", "num_hidden_layers")
    sizes = dict(zip((*names, "num_attention_heads"), tower, strict=True))
    end = {"eos_token_id": NUM_TOKENS - 1, "bos_token_id": NUM_TOKENS - 2}
    config = transformers.CLIPConfig(
        text_config={**sizes, **end, "vocab_size": NUM_TOKENS},
        vision_config={**sizes, "image_size": image_size, "patch_size": patch_size},
        projection_dim=20,
    )
    torch.manual_seed(0)
    theirs = transformers.CLIPModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape))
    folder = tmp_path_factory.mktemp("clip")
    theirs.save_pretrained(folder)
    return theirs, clip.load(folder)


def embedding(output):
    """Newer versions return the embedding as part of an output object."""
    return output if isinstance(output, torch.Tensor) else output.pooler_output


def assert_near(found, wanted):
    wanted = wanted.detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


def test_image_features_and_pixel_gradient(pair):
    theirs, ours = pair
    size = ours.config.image_size
    pixels = torch.randn(2, 3, size, size, requires_grad=True)
    features = embedding(theirs.get_image_features(pixels))
    direction = torch.randn(features.shape)
    (features / features.norm(dim=-1, keepdim=True) * direction).sum().backward()

    def projected(pixels, ours):
        features = clip.image_features(ours, pixels)
        unit = features / jnp.linalg.norm(features, axis=-1, keepdims=True)
        return (unit * direction.numpy()).sum(), features

    x = pixels.detach().permute(0, 2, 3, 1).numpy()
    gradient, found = jax.jit(jax.grad(projected, has_aux=True))(x, ours)
    assert_near(found, features)
    assert_near(gradient, pixels.grad.permute(0, 2, 3, 1))


def test_text_features(pair):
    theirs, ours = pair
    tokens = torch.randint(0, NUM_TOKENS - 2, (3, 77))
    for row, length in zip(tokens, (3, 40, 76), strict=True):
        row[length:] = NUM_TOKENS - 1
    wanted = embedding(theirs.get_text_features(tokens))
    assert_near(jax.jit(clip.text_features)(ours, tokens.numpy()), wanted)


def test_tokens(tmp_path):
    """On random texts of letters, marks, spaces and signs from all over Unicode."""
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    theirs = transformers.CLIPTokenizer.from_pretrained(FOLDER)
    rng = np.random.default_rng(0)
    pieces = ["photo", "'s ", " ", "\t", "É", "e\u0301", "ß", "😀", "9", "&amp;", "日"]
    texts = ["a" + "".join(rng.choice(pieces, 12)) for _ in range(100)]
    wanted = theirs(texts, padding="max_length", max_length=77)["input_ids"]
    for folder in (FOLDER, tmp_path):
        assert clip.tokenize(folder, texts).tolist() == wanted
