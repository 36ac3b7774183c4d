"""Sourced tables about GPUs, drivers, CUDA, frameworks, links and error codes, and their small typed readers.

| Module | Tables |
|---|---|
| `gpus` | gpus, pci_ids; recognising a card by name or PCI id |
| `drivers` | drivers, cuda_driver, capabilities, driver_install |
| `frameworks` | torch_releases, torch_cuda_archs, torch_rocm, tensorflow, cudnn, nccl, arch_binary_compat |
| `signals` | xid, gpu_metrics, known_incompat, links, run_variables |
| `systems` | os_releases |
| `servers` | servers |
| `catalog` | all of them as plain text rows, for `stoker facts` |

Tables are read when first asked for and kept. Every row names its source; an empty cell is unknown, never
zero.
"""
