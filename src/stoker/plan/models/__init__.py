"""Workloads that can be planned by name: transformers from a config.json, torchvision models."""
