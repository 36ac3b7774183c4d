/* A stand-in for libnvidia-ml.so.1: NVML's symbols over a scenario file, for tests without a GPU.
 *
 * Values stand in the scenario in NVML's own units. A key that is missing makes the call return NOT_SUPPORTED. Lines
 * with a meaning of their own, in a [gpu] section:
 *
 *   lost = 1                      every call on the GPU returns GPU_IS_LOST
 *   error = FUNCTION CODE         the function returns this code; * stands for every function
 *   hang = FUNCTION SECONDS       the function comes back only after so long, or when the line is gone
 *   process = PID BYTES           a process on the GPU
 *   mig = INSTANCE USED TOTAL UUID NAME    a MIG device
 *   xid = CODE                    an event; each further line is a further one
 *
 * and in [driver]: version, nvml, init_error. Constants and layouts are those of NVIDIA's NVML reference.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scenario.h"

typedef int nvmlReturn_t;
typedef uintptr_t nvmlDevice_t; /* GPU index + 1; a MIG device has its own number + 1 above bit 8 */
typedef unsigned long long u64;

enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10, GPU_IS_LOST = 15, UNKNOWN = 999
};

static int gpu_of(nvmlDevice_t device) { return (int)(device & 0xff) - 1; }
static int mig_of(nvmlDevice_t device) { return (int)(device >> 8) - 1; }

/* ---- how a call goes before it has a value ---- */

static bool names(const char *value, const char *function, double *number) {
    char name[MAX_VALUE];
    if (value == NULL || sscanf(value, "%159s %lf", name, number) != 2) return false;
    return strcmp(name, "*") == 0 || strcmp(name, function) == 0;
}

static bool line_for(const Section *section, const char *key, const char *function, double *number) {
    const char *value;
    for (int nth = 0; (value = section_find(section, key, nth)) != NULL; nth++)
        if (names(value, function, number)) return true;
    return false;
}

static bool hangs(int gpu, const char *function, double waited) {
    double seconds = 0;
    const Scenario *scenario = scenario_acquire();
    bool more = gpu < scenario->gpus && line_for(&scenario->gpu[gpu], "hang", function, &seconds) && waited < seconds;
    scenario_release();
    return more;
}

static nvmlReturn_t enter(nvmlDevice_t device, const char *function) {
    int gpu = gpu_of(device);
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (double waited = 0; hangs(gpu, function, waited); waited += 0.02) nanosleep(&pause, NULL);
    const Scenario *scenario = scenario_acquire();
    nvmlReturn_t code = gpu < 0 || gpu >= scenario->gpus ? INVALID_ARGUMENT : SUCCESS;
    double number = 0;
    if (code == SUCCESS && section_number(&scenario->gpu[gpu], "lost", -1, &number) && number != 0) code = GPU_IS_LOST;
    else if (code == SUCCESS && line_for(&scenario->gpu[gpu], "error", function, &number)) code = (int)number;
    scenario_release();
    return code;
}

static nvmlReturn_t number_of(nvmlDevice_t device, const char *function, const char *key, int index, double *number) {
    nvmlReturn_t code = enter(device, function);
    if (code != SUCCESS) return code;
    const Scenario *scenario = scenario_acquire();
    if (!section_number(&scenario->gpu[gpu_of(device)], key, index, number)) code = NOT_SUPPORTED;
    scenario_release();
    return code;
}

static nvmlReturn_t text_of(nvmlDevice_t device, const char *function, const char *key, char *out, unsigned size) {
    nvmlReturn_t code = enter(device, function);
    if (code != SUCCESS) return code;
    const Scenario *scenario = scenario_acquire();
    const char *value = section_find(&scenario->gpu[gpu_of(device)], key, 0);
    if (value == NULL) code = NOT_SUPPORTED;
    else snprintf(out, size, "%s", value);
    scenario_release();
    return code;
}

#define GIVE(type, key, index)                                                  \
    do {                                                                        \
        double number = 0;                                                      \
        nvmlReturn_t code = number_of(device, __func__, key, index, &number);   \
        if (code == SUCCESS) *out = (type)number;                               \
        return code;                                                            \
    } while (0)

#define GETTER(function, type, key) \
    nvmlReturn_t function(nvmlDevice_t device, type *out) { GIVE(type, key, -1); }

/* ---- library and driver ---- */

static nvmlReturn_t driver_text(const char *key, char *out, unsigned size) {
    const Scenario *scenario = scenario_acquire();
    const char *value = section_find(&scenario->driver, key, 0);
    snprintf(out, size, "%s", value != NULL ? value : "");
    scenario_release();
    return value != NULL ? SUCCESS : NOT_SUPPORTED;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    double code = 0;
    const Scenario *scenario = scenario_acquire();
    section_number(&scenario->driver, "init_error", -1, &code);
    scenario_release();
    return (nvmlReturn_t)code;
}
nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t code) {
    switch (code) {
        case SUCCESS: return "Success";
        case NOT_SUPPORTED: return "Not Supported";
        case NO_PERMISSION: return "Insufficient Permissions";
        case GPU_IS_LOST: return "GPU is lost";
        default: return "Unknown Error";
    }
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size) { return driver_text("version", out, size); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size) { return driver_text("nvml", out, size); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return SUCCESS; }

/* ---- devices ---- */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out) {
    *out = scenario_acquire()->gpus;
    scenario_release();
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out) {
    *out = index + 1;
    return enter(*out, __func__);
}
static nvmlReturn_t device_where(const char *key, const char *value, nvmlDevice_t *out) {
    nvmlReturn_t code = NOT_FOUND;
    const Scenario *scenario = scenario_acquire();
    for (int gpu = 0; gpu < scenario->gpus; gpu++) {
        const char *own = section_find(&scenario->gpu[gpu], key, 0);
        if (own != NULL && strcasecmp(own, value) == 0) *out = gpu + 1, code = SUCCESS;
    }
    scenario_release();
    return code == SUCCESS ? enter(*out, __func__) : code;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out) { return device_where("uuid", uuid, out); }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvmlDevice_t *out) {
    return device_where("pci", pci, out);
}
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out) {
    *out = gpu_of(device);
    return enter(device, __func__);
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned size) {
    return text_of(device, __func__, "name", out, size);
}
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *out, unsigned size) {
    return text_of(device, __func__, "serial", out, size);
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
} PciInfo;

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, PciInfo *out) {
    memset(out, 0, sizeof *out);
    nvmlReturn_t code = text_of(device, __func__, "pci", out->address, sizeof out->address);
    sscanf(out->address, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    return code;
}

/* ---- use, memory, heat, power, clocks ---- */

typedef struct { unsigned gpu, memory; } Utilization;

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, Utilization *out) {
    double gpu = 0, memory = 0;
    nvmlReturn_t code = number_of(device, __func__, "utilization_gpu", -1, &gpu);
    if (code == SUCCESS) code = number_of(device, __func__, "utilization_memory", -1, &memory);
    if (code == SUCCESS) *out = (Utilization){(unsigned)gpu, (unsigned)memory};
    return code;
}
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *out, unsigned *period) {
    *period = 167000;
    GIVE(unsigned, "encoder_utilization", -1);
}
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *out, unsigned *period) {
    *period = 167000;
    GIVE(unsigned, "decoder_utilization", -1);
}

typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } MemoryV2;

static nvmlReturn_t mig_memory(nvmlDevice_t device, MemoryV2 *out) {
    const Scenario *scenario = scenario_acquire();
    const char *line = section_find(&scenario->gpu[gpu_of(device)], "mig", mig_of(device));
    int read = line == NULL ? 0 : sscanf(line, "%*u %llu %llu", &out->used, &out->total);
    scenario_release();
    out->reserved = 0;
    out->free = out->total - out->used;
    return read == 2 ? SUCCESS : NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, MemoryV2 *out) {
    nvmlReturn_t code = enter(device, __func__);
    if (code != SUCCESS) return code;
    if (mig_of(device) >= 0) return mig_memory(device, out);
    double total, reserved, used;
    if ((code = number_of(device, __func__, "memory_total", -1, &total)) != SUCCESS) return code;
    if ((code = number_of(device, __func__, "memory_reserved", -1, &reserved)) != SUCCESS) return code;
    if ((code = number_of(device, __func__, "memory_used", -1, &used)) != SUCCESS) return code;
    out->total = (u64)total, out->reserved = (u64)reserved, out->used = (u64)used;
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, Memory *out) { /* counts reserved memory as used */
    MemoryV2 memory;
    nvmlReturn_t code = nvmlDeviceGetMemoryInfo_v2(device, &memory);
    if (code == SUCCESS) *out = (Memory){memory.total, memory.free, memory.used + memory.reserved};
    return code;
}

typedef struct { unsigned version, sensor; int temperature; } TemperatureV1;
typedef struct { unsigned version; int margin; } MarginV1;

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, TemperatureV1 *about) {
    int *out = &about->temperature;
    GIVE(int, "temperature", -1);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *out) {
    (void)sensor;
    GIVE(unsigned, "temperature", -1);
}
nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, MarginV1 *about) {
    int *out = &about->margin;
    GIVE(int, "temperature_margin", -1);
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int threshold, unsigned *out) {
    static const char *const keys[] = {"temperature_shutdown", "temperature_slowdown", "temperature_memory_max",
                                       "temperature_gpu_max"};
    if (threshold < 0 || threshold > 3) return NOT_SUPPORTED;
    GIVE(unsigned, keys[threshold], -1);
}
nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *out) {
    GIVE(unsigned, "fan_speed", (int)fan);
}
GETTER(nvmlDeviceGetFanSpeed, unsigned, "fan_speed")
GETTER(nvmlDeviceGetPowerUsage, unsigned, "power_mw")
GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit_mw")
GETTER(nvmlDeviceGetPowerManagementLimit, unsigned, "power_limit_mw")
GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, "power_default_limit_mw")
GETTER(nvmlDeviceGetTotalEnergyConsumption, u64, "energy_mj")
GETTER(nvmlDeviceGetPersistenceMode, int, "persistence_mode")
GETTER(nvmlDeviceGetPerformanceState, int, "performance_state")

static const char *const clock_keys[] = {"graphics_clock_mhz", "sm_clock_mhz", "memory_clock_mhz", "video_clock_mhz"};
static const char *const max_clock_keys[] = {"graphics_clock_max_mhz", "sm_clock_max_mhz", "memory_clock_max_mhz",
                                             "video_clock_max_mhz"};

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *out) {
    GIVE(unsigned, clock_keys[type & 3], -1);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *out) {
    GIVE(unsigned, max_clock_keys[type & 3], -1);
}
GETTER(nvmlDeviceGetCurrentClocksEventReasons, u64, "clock_event_reasons")
GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "clock_event_reasons")

typedef struct { u64 reference, violation; } ViolationTime;

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, int policy, ViolationTime *about) {
    u64 *out = &about->violation;
    about->reference = (u64)time(NULL) * 1000000;
    GIVE(u64, "violation_ns", policy);
}

/* ---- PCIe and NVLink ---- */

GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie_generation")
GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie_generation_max")
GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie_width")
GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie_width_max")
GETTER(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replays")

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int counter, unsigned *out) {
    const struct timespec window = {.tv_nsec = 20 * 1000 * 1000}; /* the real one measures for 20 ms */
    nanosleep(&window, NULL);
    GIVE(unsigned, counter == 0 ? "pcie_tx_kb_s" : "pcie_rx_kb_s", -1);
}
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *out) {
    double links = 0;
    nvmlReturn_t code = number_of(device, __func__, "nvlinks", -1, &links);
    if (code != SUCCESS || link >= links) return code == SUCCESS ? INVALID_ARGUMENT : code;
    GIVE(int, "nvlink_state", (int)link);
}

typedef struct { unsigned char cluster[16]; nvmlReturn_t status; uint32_t clique; unsigned char state; } FabricInfo;
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    nvmlReturn_t status;
    uint32_t clique;
    unsigned char state;
    uint32_t health;
} FabricInfoV2;

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, FabricInfo *about) {
    unsigned char *out = &about->state;
    GIVE(unsigned char, "fabric_state", -1);
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, FabricInfoV2 *about) {
    double health = 0;
    if (number_of(device, __func__, "fabric_health", -1, &health) == SUCCESS) about->health = (uint32_t)health;
    unsigned char *out = &about->state;
    GIVE(unsigned char, "fabric_state", -1);
}

/* ---- field values ---- */

typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency;
    int type, result;
    union { double real; unsigned small; u64 large; long long signed_large; int signed_small; } value;
} FieldValue;

enum { UNSIGNED = 1, UNSIGNED_LARGE = 3, SIGNED = 5 };

static const struct { uint32_t field; int type; const char *key; } known_fields[] = {
    {82, UNSIGNED, "memory_temperature"},
    {138, UNSIGNED_LARGE, "nvlink_tx_kib"},
    {139, UNSIGNED_LARGE, "nvlink_rx_kib"},
    {161, UNSIGNED_LARGE, "nvlink_replay"},
    {162, UNSIGNED_LARGE, "nvlink_recovery"},
    {163, UNSIGNED_LARGE, "nvlink_crc"},
    {194, SIGNED, "slowdown_tlimit"},
    {197, UNSIGNED_LARGE, "pcie_tx_bytes"},
    {198, UNSIGNED_LARGE, "pcie_rx_bytes"},
    {230, UNSIGNED, "recovery_action"},
};

static void fill_field(nvmlDevice_t device, FieldValue *value) {
    value->result = NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof known_fields / sizeof *known_fields; i++) {
        double number = 0;
        if (known_fields[i].field != value->field) continue;
        value->type = known_fields[i].type;
        value->result = number_of(device, "nvmlDeviceGetFieldValues", known_fields[i].key, (int)value->scope, &number);
        if (value->type == SIGNED) value->value.signed_small = (int)number;
        else if (value->type == UNSIGNED) value->value.small = (unsigned)number;
        else value->value.large = (u64)number;
    }
}
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, FieldValue *values) {
    nvmlReturn_t code = enter(device, __func__);
    for (int i = 0; code == SUCCESS && i < count; i++) fill_field(device, &values[i]);
    return code;
}

/* ---- memory errors ---- */

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *out, int *pending) {
    *pending = 1;
    GIVE(int, "ecc_mode", -1);
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int kind, int counter, u64 *out) {
    static const char *const keys[] = {"ecc_corrected", "ecc_corrected_aggregate", "ecc_uncorrected",
                                       "ecc_uncorrected_aggregate"};
    GIVE(u64, keys[(kind & 1) * 2 + (counter & 1)], -1);
}

typedef struct { unsigned version; u64 counts[11]; unsigned exceeded; } SramStatus;

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, SramStatus *about) {
    unsigned *out = &about->exceeded;
    GIVE(unsigned, "sram_threshold_exceeded", -1);
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                       unsigned *pending, unsigned *failure) {
    static const char *const keys[] = {"remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failure"};
    unsigned *const outs[] = {corrected, uncorrected, pending, failure};
    nvmlReturn_t code = SUCCESS;
    for (int i = 0; i < 4 && code == SUCCESS; i++) {
        double number = 0;
        code = number_of(device, __func__, keys[i], -1, &number);
        *outs[i] = (unsigned)number;
    }
    return code;
}
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, int cause, unsigned *count, u64 *addresses) {
    double pages = 0;
    nvmlReturn_t code =
        number_of(device, __func__, cause == 0 ? "retired_corrected" : "retired_uncorrected", -1, &pages);
    if (code != SUCCESS) return code;
    bool fits = *count >= pages && addresses != NULL;
    for (unsigned i = 0; fits && i < pages; i++) addresses[i] = 0x1000 * (i + 1);
    *count = (unsigned)pages;
    return fits || pages == 0 ? SUCCESS : INSUFFICIENT_SIZE;
}
GETTER(nvmlDeviceGetRetiredPagesPendingStatus, int, "retired_pending")

/* ---- MIG ---- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *out, unsigned *pending) {
    *pending = 0;
    GIVE(unsigned, "mig_mode", -1);
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *out) {
    *out = 7;
    return enter(device, __func__);
}
static nvmlReturn_t mig_line(nvmlDevice_t device, const char *function, unsigned *instance, char *uuid, char *name) {
    nvmlReturn_t code = enter(device, function);
    if (code != SUCCESS) return code;
    const Scenario *scenario = scenario_acquire();
    const char *line = section_find(&scenario->gpu[gpu_of(device)], "mig", mig_of(device));
    int read = line == NULL ? 0 : sscanf(line, "%u %*u %*u %95s %95[^\n]", instance, uuid, name);
    scenario_release();
    return read == 3 ? SUCCESS : NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *out) {
    char uuid[96], name[96];
    unsigned instance;
    *out = device | (nvmlDevice_t)(index + 1) << 8;
    return mig_line(*out, __func__, &instance, uuid, name);
}
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *out) {
    char uuid[96], name[96];
    return mig_line(device, __func__, out, uuid, name);
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned size) {
    char uuid[96], name[96];
    unsigned instance;
    if (mig_of(device) < 0) return text_of(device, __func__, "uuid", out, size);
    nvmlReturn_t code = mig_line(device, __func__, &instance, uuid, name);
    if (code == SUCCESS) snprintf(out, size, "%s", uuid);
    return code;
}

typedef struct { unsigned multiprocessors, engines[5], gpu_slices, compute_slices; u64 memory_mb; } Attributes;

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, Attributes *out) {
    char uuid[96], name[96];
    unsigned instance, slices = 0, gigabytes = 0;
    nvmlReturn_t code = mig_line(device, __func__, &instance, uuid, name);
    if (code != SUCCESS || sscanf(name, "%ug.%ugb", &slices, &gigabytes) != 2) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    out->gpu_slices = out->compute_slices = slices;
    out->memory_mb = gigabytes * 1024ull;
    return SUCCESS;
}

/* ---- activity counters (GPM) ---- */

typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { unsigned metric; nvmlReturn_t result; double value; const char *info[3]; } GpmMetric;
typedef struct { nvmlDevice_t device; int instance; } GpmSample;
typedef struct { unsigned version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmMetrics;

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, GpmSupport *about) {
    double supported = 0;
    nvmlReturn_t code = enter(device, __func__);
    if (code != SUCCESS) return code;
    number_of(device, __func__, "gpm", -1, &supported);
    about->supported = supported != 0;
    return SUCCESS;
}
nvmlReturn_t nvmlGpmSampleAlloc(GpmSample **out) {
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
nvmlReturn_t nvmlGpmSampleFree(GpmSample *sample) {
    free(sample);
    return SUCCESS;
}
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, GpmSample *sample) {
    *sample = (GpmSample){device, -1};
    return enter(device, __func__);
}
nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned instance, GpmSample *sample) {
    *sample = (GpmSample){device, (int)instance};
    return enter(device, __func__);
}
nvmlReturn_t nvmlGpmMetricsGet(GpmMetrics *about) {
    nvmlReturn_t code = SUCCESS;
    for (unsigned i = 0; i < about->count && code == SUCCESS; i++) {
        GpmMetric *metric = &about->metrics[i];
        const char *key = metric->metric == 2    ? "gpm_sm"
                          : metric->metric == 5  ? "gpm_tensor"
                          : metric->metric == 10 ? "gpm_dram"
                                                 : "gpm_other";
        metric->result = number_of(about->first->device, __func__, key, about->first->instance, &metric->value);
        if (metric->result == GPU_IS_LOST) code = GPU_IS_LOST;
    }
    return code;
}

/* ---- processes and events ---- */

typedef struct { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; } ProcessInfo;

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, ProcessInfo *out) {
    nvmlReturn_t code = enter(device, __func__);
    if (code != SUCCESS) return code;
    unsigned found = 0, room = out == NULL ? 0 : *count;
    const char *line;
    const Scenario *scenario = scenario_acquire();
    for (; (line = section_find(&scenario->gpu[gpu_of(device)], "process", (int)found)) != NULL; found++) {
        ProcessInfo process = {.gpu_instance = ~0u, .compute_instance = ~0u};
        sscanf(line, "%u %llu", &process.pid, &process.memory);
        if (found < room) out[found] = process;
    }
    scenario_release();
    *count = found;
    return found <= room ? SUCCESS : INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count, ProcessInfo *out) {
    (void)out;
    *count = 0;
    return enter(device, __func__);
}

typedef struct { nvmlDevice_t device; u64 type, data; unsigned gpu_instance, compute_instance; } EventData;
typedef struct { int told[MAX_GPUS]; bool wanted[MAX_GPUS]; } EventSet;

nvmlReturn_t nvmlEventSetCreate(EventSet **out) {
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
nvmlReturn_t nvmlEventSetFree(EventSet *set) {
    free(set);
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, u64 types, EventSet *set) {
    (void)types;
    nvmlReturn_t code = enter(device, __func__);
    if (code == SUCCESS) set->wanted[gpu_of(device)] = true;
    return code;
}
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, u64 *out) {
    *out = 8; /* critical Xid errors */
    return enter(device, __func__);
}
static bool next_event(EventSet *set, EventData *out) {
    bool found = false;
    const Scenario *scenario = scenario_acquire();
    for (int gpu = 0; gpu < scenario->gpus && !found; gpu++) {
        const char *line = section_find(&scenario->gpu[gpu], "xid", set->told[gpu]);
        if (line == NULL || !set->wanted[gpu]) continue;
        *out = (EventData){.device = gpu + 1, .type = 8, .data = strtoull(line, NULL, 10)};
        set->told[gpu]++;
        found = true;
    }
    scenario_release();
    return found;
}
nvmlReturn_t nvmlEventSetWait_v2(EventSet *set, EventData *out, unsigned milliseconds) {
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (unsigned waited = 0; waited <= milliseconds; waited += 20) {
        if (next_event(set, out)) return SUCCESS;
        nanosleep(&pause, NULL);
    }
    return TIMEOUT;
}
