"""The shape of a transformer, read from a config.json in the style of Hugging Face."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stoker.errors import UserError
from stoker.plan.workload import read_json


@dataclass(frozen=True)
class TransformerConfig:
    """What decides the cost of a transformer.

    Attributes:
        name: What to call it.
        vocabulary: Tokens.
        hidden: Width of the residual stream.
        layers: Blocks.
        heads: Attention heads.
        kv_heads: Heads of keys and values.
        feed_forward: Width inside the feed-forward part.
        positions: Longest sequence.
        head_size: Width of a head.
        norm: RMS norm computed in fp32 by hand as most decoders do, fused RMS norm, or layer norm.
        position: Rotary, learned, or none (such as ALiBi, whose bias costs nothing in fused attention).
        gated: Whether the feed-forward part has a gate (SwiGLU).
        causal: Whether a token sees only those before it.
        biases: Whether linear layers have biases.
        dropout: Probability of dropout after embedding, attention and feed-forward.
        tied: Whether the output matrix is the embedding.
        head: Language model over the vocabulary, or a small head over the pooled or every token.
        attention: Fused, or unfused with the score matrix kept.
        post_norm: Whether the norm follows the residual sum (BERT) rather than preceding the block.
        fused_loss: Whether one kernel takes the loss from the logits, without a copy of them in fp32.
        keeps_scores: Whether softmax keeps its input for the backward pass beside its output, as torch did before
            1.11 (`_softmax` in tools/autograd/derivatives.yaml: `self` until 1.10, only its type from 1.11 on).
        token_types: Kinds of tokens that have an embedding of their own (BERT); 0 for none.
    """

    name: str
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int
    positions: int
    head_size: int
    norm: Literal["rms", "rms-fused", "layer"] = "rms"
    position: Literal["rotary", "learned", "none"] = "rotary"
    gated: bool = True
    causal: bool = True
    biases: bool = False
    dropout: float = 0.0
    tied: bool = False
    head: Literal["language", "masked", "classify", "span"] = "language"
    attention: Literal["fused", "unfused"] = "fused"
    post_norm: bool = False
    token_types: int = 0
    fused_loss: bool = False
    keeps_scores: bool = False


def read_config(path: Path) -> TransformerConfig:
    """Read a config.json, or the one in a folder.

    Raises:
        UserError: If it cannot be read or its family is not known.
    """
    file = path / "config.json" if path.is_dir() else path
    return parse_config(read_json(file), str(file))


@dataclass(frozen=True)
class _Family:
    """How one family of models writes its config.

    Attributes:
        keys: Names of the keys that are not those of Llama, by what they mean.
        defaults: What a missing key means; a key without default must be there.
        traits: Fields that are the same in the whole family.
        special: Reads what only this family says.
    """

    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    defaults: Mapping[str, float] = field(default_factory=dict[str, float])
    traits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    special: Callable[[dict[str, Any]], dict[str, Any]] = lambda _raw: {}


def _bert_head(raw: dict[str, Any]) -> dict[str, Any]:
    architecture = " ".join(map(str, raw.get("architectures") or ()))
    heads = {"SequenceClassification": "classify", "QuestionAnswering": "span"}
    return {"head": next((head for part, head in heads.items() if part in architecture), "masked")}


def _mpt_choices(raw: dict[str, Any]) -> dict[str, Any]:
    position = "learned" if raw.get("learned_pos_emb", True) else "none"
    return {"position": position}


_KEYS = {
    "vocabulary": "vocab_size", "hidden": "hidden_size", "layers": "num_hidden_layers",
    "heads": "num_attention_heads", "kv_heads": "num_key_value_heads", "head_size": "head_dim",
    "feed_forward": "intermediate_size", "positions": "max_position_embeddings", "dropout": "hidden_dropout_prob",
    "token_types": "type_vocab_size", "tied": "tie_word_embeddings", "widening": "expansion_ratio",
}  # fmt: skip
"""Name of the key in a config.json by what it means, as Llama and BERT write it."""

_PLAIN = {"norm": "layer", "gated": False}
_LLAMA = _Family(defaults={"positions": 8192, "tied": False})
_BERT = _Family(
    defaults={"positions": 512, "dropout": 0.1, "token_types": 2},
    traits={**_PLAIN, "position": "learned", "causal": False, "biases": True, "tied": True, "post_norm": True},
    special=_bert_head,
)
_FAMILIES: Mapping[str, _Family] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "phi3"), _LLAMA),
    **dict.fromkeys(("bert", "roberta", "electra", "xlm-roberta"), _BERT),
    "gpt2": _Family(
        keys={"hidden": "n_embd", "layers": "n_layer", "heads": "n_head", "feed_forward": "n_inner",
              "positions": "n_positions", "dropout": "resid_pdrop"},
        defaults={"positions": 1024, "dropout": 0.1, "widening": 4},
        traits={**_PLAIN, "position": "learned", "biases": True, "tied": True},
    ),
    "gpt_neox": _Family(defaults={"positions": 2048}, traits={**_PLAIN, "biases": True}),
    "mpt": _Family(
        keys={"hidden": "d_model", "layers": "n_layers", "heads": "n_heads", "positions": "max_seq_len",
              "feed_forward": ""},
        defaults={"positions": 2048, "widening": 4},
        traits={**_PLAIN, "tied": True},
        special=_mpt_choices,
    ),
    "opt": _Family(
        keys={"feed_forward": "ffn_dim", "dropout": "dropout"},
        defaults={"positions": 2048, "dropout": 0.1, "widening": 4},
        traits={**_PLAIN, "position": "learned", "biases": True, "tied": True},
    ),
}  # fmt: skip


def parse_config(raw: dict[str, Any], where: str) -> TransformerConfig:
    """Understand the content of a config.json.

    Raises:
        UserError: If its family is not known or a key is missing.
    """
    name = str(raw.get("model_type", "")).lower()
    family = _FAMILIES.get(name)
    if family is None:
        known = ", ".join(sorted(_FAMILIES))
        raise UserError(
            f"{where}: model_type {name or 'is missing and'!r} is not known: use one of {known}, "
            "or give the model as module:callable"
        )
    try:
        return _read(raw, family, str(raw.get("_name_or_path") or raw.get("name") or name))
    except KeyError as missing:
        raise UserError(f"{where}: the key {missing} is missing") from None


def _read(raw: dict[str, Any], family: _Family, name: str) -> TransformerConfig:
    def value(meaning: str) -> Any:
        """What the config says; a null is as good as nothing."""
        key = family.keys.get(meaning, _KEYS[meaning])
        found = raw.get(key)
        if found is None and meaning in family.defaults:
            return family.defaults[meaning]
        if found is None:
            raise KeyError(key)
        return found

    def value_or(meaning: str, other: int) -> int:
        return int(raw.get(family.keys.get(meaning, _KEYS[meaning])) or other)

    hidden, heads = int(value("hidden")), int(value("heads"))
    wide = int(value("widening")) * hidden if "widening" in family.defaults else 0
    optional = {key: value(key) for key in ("dropout", "token_types", "tied") if key in family.defaults}
    return TransformerConfig(
        name=name,
        vocabulary=int(value("vocabulary")),
        hidden=hidden,
        layers=int(value("layers")),
        heads=heads,
        kv_heads=value_or("kv_heads", heads),
        feed_forward=value_or("feed_forward", wide) or int(value("feed_forward")),
        positions=int(value("positions")),
        head_size=value_or("head_size", hidden // heads),
        keeps_scores=bool(raw.get("_softmax_keeps_input", False)),
        fused_loss=raw.get("loss_fn") == "fused_crossentropy",
        attention="unfused" if raw.get("_attn_implementation") == "eager" else "fused",
        **{**family.traits, **optional, **family.special(raw)},
    )
