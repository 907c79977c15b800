"""CLIP's tokenizer, in the package ``tokenizers`` as in ``transformers``.

From a folder's ``tokenizer.json`` or, where there is none, from ``vocab.json`` and
``merges.txt`` with the steps that ``transformers`` takes: NFC, spaces joined, lower
case, CLIP's regular expression, bytes, merges.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from softqd.networks._clip_files import (
    CONTEXT,
    INSTALL,
    LEGACY_END,
    ClipConfig,
    file_of,
)

START, END = "<|startoftext|>", "<|endoftext|>"
# CLIP's words: contractions, runs of letters, single digits, runs of anything else.
_WORDS = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
    r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def load_tokenizer(folder: str | Path) -> Any:
    """The tokenizer of a CLIP folder, a ``tokenizers.Tokenizer``.

    Raises:
        ValueError: If its files are missing or cannot be read, or if tokenizers is not
            installed.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ValueError(f"CLIP's prompts need tokenizers; {INSTALL}") from None
    folder = Path(folder).expanduser()
    path = folder / "tokenizer.json"
    merges = None
    if not path.is_file():
        path, merges = file_of(folder, "vocab.json"), file_of(folder, "merges.txt")
    try:
        if merges is None:
            tokenizer = Tokenizer.from_file(str(path))
        else:
            tokenizer = _from_vocabulary(path, merges)
    except Exception as error:  # tokenizers raises plain exceptions
        files = path if merges is None else f"{path} with {merges.name}"
        raise ValueError(f"{files} cannot be read as a tokenizer: {error}") from None
    if None in (tokenizer.token_to_id(START), tokenizer.token_to_id(END)):
        raise ValueError(f"{path} is not of CLIP: it has no tokens {START} and {END}")
    # What the file says of these would hide that a prompt is too long.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def check_tokenizer(tokenizer: Any, config: ClipConfig, folder: str | Path) -> None:
    """Refuse a tokenizer whose numbers are not those of the model.

    Raises:
        ValueError: If it has more tokens than the model, or ends texts with another one
            than the model looks for.
    """
    last, end = max(tokenizer.get_vocab().values()), tokenizer.token_to_id(END)
    if last >= config.vocab_size:
        raise ValueError(
            f"{folder}: the tokenizer has tokens up to {last}, and config.json a "
            f"vocab_size of {config.vocab_size}; they are of different models"
        )
    wanted = last if config.end_token == LEGACY_END else config.end_token
    if end != wanted:
        raise ValueError(
            f"{folder}: the tokenizer ends texts with token {end}, and by config.json "
            f"(eos_token_id {config.end_token}) the model looks for {wanted}; they are "
            "of different models"
        )


def _from_vocabulary(vocab_path: Path, merges_path: Path) -> Any:
    from tokenizers import (
        Regex,
        Tokenizer,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    vocabulary = json.loads(vocab_path.read_text(encoding="utf-8"))
    rows = merges_path.read_text(encoding="utf-8").split("\n")
    merges: Any = [
        tuple(r.split(" ")) for r in rows if r and not r.startswith("#version")
    ]
    tokenizer: Any = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=merges,
            unk_token=END,
            end_of_word_suffix="</w>",
            continuing_subword_prefix="",
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.add_special_tokens([START, END])
    ends = [(token, tokenizer.token_to_id(token)) for token in (END, START)]
    tokenizer.post_processor = processors.RobertaProcessing(
        *ends, trim_offsets=False, add_prefix_space=False
    )
    return tokenizer


def tokenize(
    tokenizer: Any, prompts: Iterable[str], context: int = CONTEXT
) -> Int[np.ndarray, "n context"]:
    """Tokens of prompts, with start and end, filled up with the end token.

    Args:
        tokenizer: A CLIP folder, or what `load_tokenizer` returned.
        prompts: Texts, not empty.
        context: Most tokens of a text, start and end included.

    Raises:
        ValueError: If a prompt is empty or too long.
    """
    if isinstance(tokenizer, (str, Path)):
        tokenizer = load_tokenizer(tokenizer)
    if isinstance(prompts, str):
        raise ValueError(f"prompts must be a list of texts; got the text {prompts!r}")
    texts = list(prompts)
    tokens = np.full((len(texts), context), tokenizer.token_to_id(END), np.int32)
    special = {tokenizer.token_to_id(START), tokenizer.token_to_id(END)}
    for row, text in zip(tokens, texts, strict=True):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"prompt must be a text that is not empty; got {text!r}")
        ids = tokenizer.encode(text).ids
        if set(ids) <= special:
            raise ValueError(f"prompt {text!r} says nothing to CLIP; write a sentence")
        if len(ids) > context:
            raise ValueError(
                f"prompt {text[:60]!r}... has {len(ids)} tokens, start and end "
                f"included, and CLIP reads {context}; shorten it"
            )
        row[: len(ids)] = ids
    return tokens
