"""Turns a row of the validation table into something that can be planned, or says why it cannot be."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass, field

Row = dict[str, str]

MPT = {
    "125m": (768, 12, 12), "350m": (1024, 24, 16), "760m": (1536, 24, 12), "1b": (2048, 24, 16),
    "3b": (2560, 32, 20), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 48, 56), "70b": (8192, 80, 64),
}  # fmt: skip
"""Width, layers, heads: llm-foundry scripts/train/yamls/pretrain/mpt-*.yaml."""

LLAMA = {"8b": (4096, 32, 32, 14336), "70b": (8192, 80, 64, 28672), "405b": (16384, 126, 128, 53248)}
"""Width, layers, heads, feed-forward: Llama 3 (arXiv 2407.21783, table 3); 8 heads of keys and values."""

MEGATRON = {
    "Megatron-22B": (6144, 48, 64), "GPT3-175B": (12288, 96, 96), "Megatron-1T": (25600, 128, 160),
    "GPT2-1.2B": (1536, 40, 16), "GPT2-2.0B": (1920, 54, 20),
}  # fmt: skip
"""Width, layers, heads: arXiv 2205.05198 table 3 and arXiv 1909.08053 table 1."""


@dataclass
class Case:
    """A row that can be planned."""

    config: dict | None = None
    target: str = ""
    library: str = "torchvision"  # which has the target
    micro_batch: int = 1
    size: int = 224
    changes: dict = field(default_factory=dict)
    layout: str = "single"
    gpu: str = ""
    peers: bool = True  # whether GPUs reach each other's memory
    network: str = "ib-400"
    compiled: bool = False
    memory: str = "reserved"
    notes: list[str] = field(default_factory=list)
    scaled: dict[str, float] = field(default_factory=dict)


class OutOfScopeError(Exception):
    """Why a row is not planned."""


def read_case(row: Row) -> Case:
    """The case of a row.

    Raises:
        OutOfScopeError: With the reason.
    """
    text = " ".join((row["parallelism"], row["precision"])).lower()
    if "busbw" in row["unit"] or "TFLOP" in row["unit"] or row["unit"] == "GB/s":
        raise OutOfScopeError("a collective or kernel, not a training step")
    if "minutes" in row["unit"]:
        raise OutOfScopeError("time to a target, not throughput")
    for word, reason in (("rowwise", "float8 with a scale per row is not modelled"),
                         ("asynctp", "asynchronous tensor parallelism is not modelled")):  # fmt: skip
        if word in text:
            raise OutOfScopeError(reason)
    if re.search(r"cp[2-9]", text):
        raise OutOfScopeError("context parallelism is not modelled")
    if not row["global_batch"].isdigit():
        raise OutOfScopeError("the batch is not given")
    case = _family(row)
    case.gpu = _gpu(row["hardware"])
    case.compiled = "compile" in text
    case.network = _network(row["interconnect"])
    # lambdal's scripts/benchmark_pytorch.sh set NCCL_P2P_DISABLE=1 from 2022-10-16 to 2024-07-28, when all of these
    # rows were measured: NVLink stood unused, and what GPUs exchanged went through the host's memory
    case.peers = not row["source"].startswith("lambdal")
    return case


def _network(interconnect: str) -> str:
    """Link between nodes; what is said of a node is for its eight GPUs."""
    found = re.search(r"(\d+)G-(\w+)(?:/(GPU|node))?", interconnect)
    if found is None:
        return "ib-400"  # what servers of the time of H100 have
    rate = int(found[1]) // (8 if found[3] == "node" else 1)
    return f"{'roce' if 'roce' in found[2].lower() else 'ib'}-{rate}"


def _gpu(hardware: str) -> str:
    if "96GB-HBM2e" in hardware:
        return "H100 SXM5 96GB HBM2e 500W"
    if hardware.startswith("V100 16GB"):
        return "V100 SXM2 16GB"
    name = hardware.replace("DGX A100", "").replace("DGX-1", "").replace("DGX2-H", "").replace("-", " ")
    name = re.sub(r"\b24GB\b", "", name) if "3090" in name or "4090" in name else name
    if "unspecified" in name:
        return "V100 SXM2 32GB"
    return name.strip()


def _precision(row: Row) -> str:
    text = row["precision"].lower()
    if "fp8" in text or "float8" in text:
        return "fp8"
    if "bf16" in text:
        return "bf16"
    if "fp16" in text or "amp" in text or "mixed" in text:
        return "fp16"
    if "tf32" in text:
        return "tf32"
    ampere = not any(old in row["hardware"] for old in ("V100", "RTX 8000", "2080", "T4", "P100", "1080", "TITAN"))
    # NVIDIA's containers, in which these rows were measured, let fp32 matrix products run in TF32
    return "tf32" if ampere and row["source"].startswith("lambdal") else "fp32"


def _family(row: Row) -> Case:
    model, source = row["model"], row["source"]
    if source.startswith("mosaicml"):
        return _mpt(row)
    if model.lower().startswith("llama"):
        return _llama(row)
    if model in MEGATRON:
        return _megatron(row)
    if model.startswith("bert"):
        return _bert(row)
    library = "timm" if source.startswith("huggingface/pytorch-image-models") else "torchvision"
    ranks = int(row["n_gpus"])
    case = Case(
        target=_image_model(model.removeprefix("torchvision/"), library),
        library=library,
        micro_batch=int(row["global_batch"]) // ranks,
        size=int(row["seq_or_res"]),
    )
    case.changes = {"precision": _precision(row), "optimizer": "sgd"}
    case.layout = f"ddp={ranks}" if ranks > 1 else "single"
    case.changes["channels_last"] = "channels-last" in row["notes"] or "channels_last" in row["precision"]
    return case


def _image_model(name: str, library: str) -> str:
    if importlib.util.find_spec(library) is None:
        raise OutOfScopeError(f"{library} is not installed")
    known = importlib.import_module(library if library == "timm" else "torchvision.models").list_models()
    if name not in known:
        raise OutOfScopeError(f"{name} is neither in {library} nor read from a config")
    return name


def _checkpointing(row: Row) -> str:
    kind = row["ac"]
    if kind.startswith("selective-op"):
        return "selective"
    if kind == "selective-layer":
        return "selective-layer"
    return "full" if kind == "full" else "none"


def _llama(row: Row) -> Case:
    size = re.search(r"(\d+b)", row["model"].lower())
    if size is None or size[1] not in LLAMA:
        raise OutOfScopeError("this Llama is not known")
    width, layers, heads, ffn = LLAMA[size[1]]
    length = int(row["seq_or_res"])
    config = {
        "model_type": "llama", "name": row["model"], "vocab_size": 128256, "hidden_size": width,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": 8,
        "intermediate_size": ffn, "max_position_embeddings": length,
    }  # fmt: skip
    text = row["parallelism"]
    if "compile" in text and re.search(r"2025-?06", row["source"]):
        # torchtitan compiled the loss too from April 2025 on, which keeps no copy of the logits in fp32; in December
        # 2024 it had stopped doing so (pytorch/torchtitan pull requests 1033 and 755)
        config["loss_fn"] = "fused_crossentropy"
    tensor = int((re.search(r"TP(\d+)", text) or [0, 1])[1])
    stages = int((re.search(r"PP(\d+)", text) or [0, 1])[1])
    shards = int(row["n_gpus"]) // (tensor * stages)
    local = int(row["global_batch"]) // shards
    case = Case(config=config, size=length, micro_batch=local)
    case.changes = {"precision": _precision(row), "checkpointing": _checkpointing(row), "clip": 1.0}
    parts = [f"fsdp2={shards}"] + [f"tp={tensor}"] * (tensor > 1) + [f"pp={stages}"] * (stages > 1)
    case.layout = ",".join(parts)
    if stages > 1:
        raise OutOfScopeError("the number of micro-batches is not given")
    return case


def _mpt(row: Row) -> Case:
    size = row["model"].lower().removeprefix("mpt-")
    if size not in MPT:
        raise OutOfScopeError("this MPT is not known")
    width, layers, heads = MPT[size]
    length = int(row["seq_or_res"])
    config = {
        "model_type": "mpt", "name": row["model"], "vocab_size": 50368, "d_model": width, "n_heads": heads,
        "n_layers": layers, "max_seq_len": length, "loss_fn": "fused_crossentropy",
    }  # fmt: skip
    found = re.search(r"micro-batch (\d+) x ga (\d+)", row["parallelism"])
    if found is None:
        raise OutOfScopeError("the micro-batch is not given")
    ranks = int(row["n_gpus"])
    case = Case(config=config, size=length, micro_batch=int(found[1]))
    case.changes = {
        "precision": _precision(row), "accumulation": int(found[2]), "clip": 1.0,
        "checkpointing": _checkpointing(row),
    }  # fmt: skip
    case.layout = f"fsdp2={ranks}" + (",reshard=no" if "SHARD_GRAD_OP" in row["parallelism"] else "")
    # the fused loss is the default since March 2023 (mosaicml/examples pull request 251)
    case.notes.append("FSDP1 planned as FSDP2; llm-foundry's default fused loss; FlashAttention 1")
    # FlashAttention 1 reaches 30 to 50 % forward and 25 to 35 % backward (arXiv 2307.08691 section 1) where version 2
    # reaches what the table of efficiencies says: these rows are of mid 2023
    case.scaled = {"attention": 0.40 / 0.55, "attention_backward": 0.30 / 0.45}
    return case


def _bert(row: Row) -> Case:
    large = "large" in row["model"]
    squad = "squad" in row["model"]
    head = "BertForQuestionAnswering" if squad else "BertForSequenceClassification"
    config = {
        "model_type": "bert", "name": row["model"], "vocab_size": 30522, "hidden_size": 1024 if large else 768,
        "num_hidden_layers": 24 if large else 12, "num_attention_heads": 16 if large else 12,
        "intermediate_size": 4096 if large else 3072, "max_position_embeddings": 512, "architectures": [head],
        "_attn_implementation": "eager",
    }  # fmt: skip
    ranks = int(row["n_gpus"])
    found = re.search(r"micro-batch (\d+) x ga (\d+)", row["parallelism"])
    micro = int(found[1]) if found else int(row["global_batch"]) // ranks
    case = Case(config=config, size=int(row["seq_or_res"]), micro_batch=micro)
    optimizer = "adafactor" if "Adafactor" in row["parallelism"] else "adamw"
    case.changes = {
        "precision": _precision(row), "checkpointing": _checkpointing(row), "clip": 1.0, "optimizer": optimizer,
        "accumulation": int(found[2]) if found else 1,
    }  # fmt: skip
    if row["source"].startswith("lambdal") and case.changes["precision"] == "fp16":
        case.changes["precision"] = "fp16-pure"  # NVIDIA's script casts the model (apex amp O2), not each operator
    elif row["source"].startswith("lambdal"):
        case.changes["optimizer"] = "adamw-loop"  # in fp32 it takes BertAdam, which goes parameter by parameter
    if "2022-01" in row["source"]:
        config["_softmax_keeps_input"] = True  # torch 1.10, the newest of that month (pytorch pull request 65242)
    if "NVML" in row["notes"]:
        case.memory = "device"
        case.changes |= {
            "keep_gradients": True,
            "optimizer": "adamw-loop" if optimizer == "adamw" else optimizer,
        }
        case.notes.append("context of 1343 MiB as the source says")
    case.layout = f"ddp={ranks}" if ranks > 1 else "single"
    return case


def _megatron(row: Row) -> Case:
    width, layers, heads = MEGATRON[row["model"]]
    length = int(row["seq_or_res"])
    config = {
        "model_type": "gpt2", "name": row["model"], "vocab_size": 51200, "n_embd": width, "n_head": heads,
        "n_layer": layers, "n_positions": length, "_attn_implementation": "eager",
    }  # fmt: skip
    text = row["parallelism"]
    tensor = int((re.search(r"TP(\d+)", text) or [0, 1])[1])
    stages = int((re.search(r"PP(\d+)", text) or [0, 1])[1])
    if stages > 1:
        raise OutOfScopeError("the chunks per stage of the interleaved schedule are not given")
    micro = int((re.search(r"micro-batch (\d+)", text) or [0, row["global_batch"]])[1])
    case = Case(config=config, size=length, micro_batch=micro)
    selective = row["ac"].startswith("selective")
    case.changes = {
        "precision": "fp16",
        "checkpointing": "full" if row["ac"] == "full" else "none",
        "clip": 1.0,
    }
    if selective:
        config.pop("_attn_implementation")  # its selective recomputation drops what fused attention never keeps
    case.changes["accumulation"] = max(1, int(row["global_batch"]) // micro)
    case.layout = f"tp={tensor}" if tensor > 1 else "single"
    return case
