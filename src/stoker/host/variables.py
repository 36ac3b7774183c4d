"""Environment variables that change how a run behaves; the others are never read, as they can hold secrets."""

from __future__ import annotations

PREFIXES = (
    "BLIS_", "CUBLAS_", "CUDA_", "CUDNN_", "GLOO_", "GOMP_", "HIP_", "HSA_", "KMP_", "MKL_", "NCCL_", "NUMEXPR_",
    "NVIDIA_", "NVSHMEM_", "OMPI_MCA_", "OMP_", "OPENBLAS_", "PYTORCH_", "RCCL_", "ROCR_", "SHARP_", "SLURM_",
    "TF_CPP_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_", "TF_XLA_", "TORCH_",
    "TORCHELASTIC_", "TORCHINDUCTOR_", "UCX_", "XLA_",
)  # fmt: skip
NAMES = (
    "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    "MALLOC_ARENA_MAX", "MASTER_ADDR", "MASTER_PORT", "PATH", "PYTHONHOME", "PYTHONPATH", "RANK", "VIRTUAL_ENV",
    "WORLD_SIZE",
)  # fmt: skip
SECRETS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "CREDENTIAL", "JWT")
"""Parts of names whose values are never read, whatever their prefix."""


def matters(name: str) -> bool:
    """Whether a variable of this name changes how a run behaves and holds no secret."""
    known = name in NAMES or name.startswith(PREFIXES)
    return known and not any(part in name.upper() for part in SECRETS)
