import pytest

from stoker.errors import UserError
from stoker.plan.models.config import parse_config

LLAMA = {
    "model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 32,
}  # fmt: skip


def test_llama():
    config = parse_config(LLAMA, "x")
    assert (config.heads, config.kv_heads, config.head_size, config.gated) == (4, 2, 16, True)


def test_bert_by_its_architecture():
    raw = {"model_type": "bert", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1,
           "num_attention_heads": 2, "intermediate_size": 64,
           "architectures": ["BertForSequenceClassification"]}  # fmt: skip
    assert parse_config(raw, "x").head == "classify"


def test_what_is_missing_is_named():
    with pytest.raises(UserError, match="hidden_size"):
        parse_config({k: v for k, v in LLAMA.items() if k != "hidden_size"}, "config.json")
    with pytest.raises(UserError, match="model_type"):
        parse_config({"model_type": "rwkv"}, "config.json")
