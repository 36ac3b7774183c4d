"""The shape of a transformer, read from a config.json in the style of Hugging Face."""

from __future__ import annotations

from dataclasses import dataclass
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


def read_config(path: Path) -> TransformerConfig:
    """Read a config.json, or the one in a folder.

    Raises:
        UserError: If it cannot be read or its family is not known.
    """
    file = path / "config.json" if path.is_dir() else path
    return parse_config(read_json(file), str(file))


def parse_config(raw: dict[str, Any], where: str) -> TransformerConfig:
    """Understand the content of a config.json.

    Raises:
        UserError: If its family is not known or a key is missing.
    """
    family = str(raw.get("model_type", "")).lower()
    readers = {
        "llama": _llama, "mistral": _llama, "qwen2": _llama, "qwen3": _llama, "gemma": _llama, "phi3": _llama,
        "gpt2": _gpt2, "gpt_neox": _neox, "mpt": _mpt, "opt": _opt,
        "bert": _bert, "roberta": _bert, "electra": _bert, "xlm-roberta": _bert,
    }  # fmt: skip
    if family not in readers:
        known = ", ".join(sorted(readers))
        raise UserError(
            f"{where}: model_type {family or 'is missing and'!r} is not known: use one of {known}, "
            "or give the model as module:callable"
        )
    try:
        return readers[family](raw, str(raw.get("_name_or_path") or raw.get("name") or family))
    except KeyError as missing:
        raise UserError(f"{where}: the key {missing} is missing") from None


def _llama(raw: dict[str, Any], name: str) -> TransformerConfig:
    heads, hidden = int(raw["num_attention_heads"]), int(raw["hidden_size"])
    return TransformerConfig(
        name=name,
        vocabulary=int(raw["vocab_size"]),
        hidden=hidden,
        layers=int(raw["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(raw.get("num_key_value_heads") or heads),
        feed_forward=int(raw["intermediate_size"]),
        positions=int(raw.get("max_position_embeddings", 8192)),
        head_size=int(raw.get("head_dim") or hidden // heads),
        biases=False,
        tied=bool(raw.get("tie_word_embeddings", False)),
        attention=_attention_of(raw),
    )


def _gpt2(raw: dict[str, Any], name: str) -> TransformerConfig:
    hidden, heads = int(raw["n_embd"]), int(raw["n_head"])
    return TransformerConfig(
        name=name,
        vocabulary=int(raw["vocab_size"]),
        hidden=hidden,
        layers=int(raw["n_layer"]),
        heads=heads,
        kv_heads=heads,
        feed_forward=int(raw.get("n_inner") or 4 * hidden),
        positions=int(raw.get("n_positions", 1024)),
        head_size=hidden // heads,
        norm="layer",
        position="learned",
        gated=False,
        biases=True,
        dropout=float(raw.get("resid_pdrop", 0.1)),
        tied=True,
        attention=_attention_of(raw),
    )


def _mpt(raw: dict[str, Any], name: str) -> TransformerConfig:
    hidden, heads = int(raw["d_model"]), int(raw["n_heads"])
    return TransformerConfig(
        name=name,
        vocabulary=int(raw["vocab_size"]),
        hidden=hidden,
        layers=int(raw["n_layers"]),
        heads=heads,
        kv_heads=heads,
        feed_forward=int(raw.get("expansion_ratio", 4)) * hidden,
        positions=int(raw.get("max_seq_len", 2048)),
        head_size=hidden // heads,
        norm="layer",
        position="learned" if raw.get("learned_pos_emb", True) else "none",
        gated=False,
        tied=True,
        attention=_attention_of(raw),
        fused_loss=raw.get("loss_fn") == "fused_crossentropy",
    )


def _neox(raw: dict[str, Any], name: str) -> TransformerConfig:
    heads, hidden = int(raw["num_attention_heads"]), int(raw["hidden_size"])
    return TransformerConfig(
        name=name,
        vocabulary=int(raw["vocab_size"]),
        hidden=hidden,
        layers=int(raw["num_hidden_layers"]),
        heads=heads,
        kv_heads=heads,
        feed_forward=int(raw["intermediate_size"]),
        positions=int(raw.get("max_position_embeddings", 2048)),
        head_size=hidden // heads,
        norm="layer",
        gated=False,
        biases=True,
        attention=_attention_of(raw),
    )


def _opt(raw: dict[str, Any], name: str) -> TransformerConfig:
    heads, hidden = int(raw["num_attention_heads"]), int(raw["hidden_size"])
    return TransformerConfig(
        name=name,
        vocabulary=int(raw["vocab_size"]),
        hidden=hidden,
        layers=int(raw["num_hidden_layers"]),
        heads=heads,
        kv_heads=heads,
        feed_forward=int(raw.get("ffn_dim", 4 * hidden)),
        positions=int(raw.get("max_position_embeddings", 2048)),
        head_size=hidden // heads,
        norm="layer",
        position="learned",
        gated=False,
        biases=True,
        dropout=float(raw.get("dropout", 0.1)),
        tied=True,
        attention=_attention_of(raw),
    )


def _bert(raw: dict[str, Any], name: str) -> TransformerConfig:
    heads, hidden = int(raw["num_attention_heads"]), int(raw["hidden_size"])
    architecture = " ".join(map(str, raw.get("architectures") or ()))
    head = "masked"
    if "SequenceClassification" in architecture:
        head = "classify"
    elif "QuestionAnswering" in architecture:
        head = "span"
    return TransformerConfig(
        name=name,
        vocabulary=int(raw["vocab_size"]),
        hidden=hidden,
        layers=int(raw["num_hidden_layers"]),
        heads=heads,
        kv_heads=heads,
        feed_forward=int(raw["intermediate_size"]),
        positions=int(raw.get("max_position_embeddings", 512)),
        head_size=hidden // heads,
        norm="layer",
        position="learned",
        gated=False,
        causal=False,
        biases=True,
        dropout=float(raw.get("hidden_dropout_prob", 0.1)),
        tied=True,
        head=head,
        attention=_attention_of(raw),
        post_norm=True,
        token_types=int(raw.get("type_vocab_size", 2)),
    )


def _attention_of(raw: dict[str, Any]) -> Literal["fused", "unfused"]:
    return "unfused" if raw.get("_attn_implementation") == "eager" else "fused"
