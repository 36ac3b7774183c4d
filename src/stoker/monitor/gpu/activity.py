"""What the multiprocessors really do: counters that cards from Hopper on give over the time between two samples."""

from __future__ import annotations

from typing import Any

import pynvml

from stoker.monitor.gpu.calls import Asker
from stoker.monitor.gpu.readings import PERCENT, Values, read_memory

METRICS = {
    "sm_activity_ratio": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "tensor_activity_ratio": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_activity_ratio": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}


class Activity:
    """Activity of a GPU, or of one MIG instance of it, since the last time it was asked for."""

    def __init__(self, ask: Asker, gpu: Any, instance: int | None = None) -> None:
        self._ask, self._gpu, self._instance = ask, gpu, instance
        self._before: Any = None
        support = ask("nvmlGpmQueryDeviceSupport", gpu)
        self.supported = support is not None and bool(support.isSupportedDevice)

    def read(self) -> Values:
        """The shares of `METRICS`; none the first time, and none on cards without the counters.

        Raises:
            GpuLostError: The GPU is lost.
        """
        if not self.supported:
            return {}
        now = self._sample()
        before, self._before = self._before, now
        if before is None or now is None:
            return {}
        try:
            return self._between(before, now)
        finally:
            self._ask("nvmlGpmSampleFree", before)

    def _sample(self) -> Any:
        sample = self._ask("nvmlGpmSampleAlloc")
        if sample is None:
            return None
        if self._instance is None:
            filled = self._ask("nvmlGpmSampleGet", self._gpu, sample)
        else:
            filled = self._ask("nvmlGpmMigSampleGet", self._gpu, self._instance, sample)
        if filled is None:
            self._ask("nvmlGpmSampleFree", sample)
        return filled

    def _between(self, before: Any, now: Any) -> Values:
        asked: Any = pynvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
        asked.sample1, asked.sample2 = before, now
        for place, metric in enumerate(METRICS.values()):
            asked.metrics[place].metricId = metric
        if self._ask("nvmlGpmMetricsGet", asked) is None:
            return {}
        return {
            name: asked.metrics[place].value * PERCENT
            for place, name in enumerate(METRICS)
            if asked.metrics[place].nvmlReturn == pynvml.NVML_SUCCESS
        }


class MigReader:
    """The MIG instances of a GPU."""

    def __init__(self, ask: Asker, gpu: Any) -> None:
        self._ask, self._gpu = ask, gpu
        self._activity: dict[int, Activity] = {}

    def read(self) -> Values:
        """Mode and instances.

        Raises:
            GpuLostError: The GPU is lost.
        """
        mode = self._ask("nvmlDeviceGetMigMode", self._gpu)
        if mode is None:
            return {}
        found = [self._instance(device) for device in self._devices()] if mode[0] else []
        return {"mig_mode": mode[0], "mig_instances": [instance for instance in found if instance is not None]}

    def _devices(self) -> list[Any]:
        count = self._ask("nvmlDeviceGetMaxMigDeviceCount", self._gpu) or 0
        found = (self._ask("nvmlDeviceGetMigDeviceHandleByIndex", self._gpu, index) for index in range(count))
        return [device for device in found if device is not None]

    def _instance(self, device: Any) -> Values | None:
        number = self._ask("nvmlDeviceGetGpuInstanceId", device)
        if number is None:
            return None
        if number not in self._activity:
            self._activity[number] = Activity(self._ask, self._gpu, number)
        memory = read_memory(self._ask, device)
        return {
            "instance": str(number),
            "mig_uuid": self._ask("nvmlDeviceGetUUID", device) or "",
            "profile": self._profile(device),
            "memory_used_bytes": memory.get("memory_used_bytes"),
            "memory_total_bytes": memory.get("memory_total_bytes"),
            "sm_activity_ratio": self._activity[number].read().get("sm_activity_ratio"),
        }

    def _profile(self, device: Any) -> str:
        """Such as `3g.40gb`, as NVIDIA names profiles: slices, and memory in whole GiB, rounded up."""
        about = self._ask("nvmlDeviceGetAttributes", device)
        return "" if about is None else f"{about.gpuInstanceSliceCount}g.{-(-about.memorySizeMB // 1024)}gb"
