/* NVML's functions over a table, for machines without a GPU.

   $NVML_STAND_IN names the table (see stand_in_table.h). The names: count, uuid (number that is printed in it),
   init (an error of nvmlInit), utilization, memory_utilization, memory_used, memory_total, power, temperature, clock1, clock2,
   reasons, ecc0, ecc1, processes (number of them, 1 MiB each), fieldN (NVML_FI_DEV number N; unsigned long long),
   xid (its code, reported once per line). */
#define TABLE "NVML_STAND_IN"
#define UNSUPPORTED 3
#define UNKNOWN_ERROR 999
#include "stand_in_table.h"

struct device { int index; };
static struct device devices[16];
static double heard_until = -1;

static int look32(int gpu, const char *name, unsigned *value) {
    u64 found = 0;
    int result = look(gpu, name, &found);
    *value = (unsigned)found;
    return result;
}

const char *nvmlErrorString(int result) { return result ? "an error" : "Success"; }
int nvmlInit_v2(void) {
    u64 value;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int i = 0; i < 16; i++) devices[i].index = i;
    int result = look(-1, "init", &value);
    return result == 3 ? 0 : result;
}
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { return look32(-1, "count", count); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
    *device = &devices[index];
    return 0;
}
int nvmlDeviceGetName(struct device *d, char *name, unsigned size) {
    (void)d;
    snprintf(name, size, "Stand-in GPU");
    return 0;
}
int nvmlDeviceGetUUID(struct device *d, char *uuid, unsigned size) {
    snprintf(uuid, size, "GPU-%08d", d->index);
    return 0;
}
int nvmlDeviceGetUtilizationRates(struct device *d, unsigned *rates) {
    int result = look32(d->index, "utilization", &rates[0]);
    return result ? result : look32(d->index, "memory_utilization", &rates[1]);
}
int nvmlDeviceGetMemoryInfo(struct device *d, u64 *sizes) {
    int result = look(d->index, "memory_total", &sizes[0]);
    if (!result) result = look(d->index, "memory_used", &sizes[2]);
    sizes[1] = sizes[0] - sizes[2];
    return result;
}
int nvmlDeviceGetPowerUsage(struct device *d, unsigned *mw) { return look32(d->index, "power", mw); }
int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned *c) {
    (void)sensor;
    return look32(d->index, "temperature", c);
}
int nvmlDeviceGetClockInfo(struct device *d, int kind, unsigned *mhz) {
    return look32(d->index, kind == 1 ? "clock1" : "clock2", mhz);
}
int nvmlDeviceGetCurrentClocksEventReasons(struct device *d, u64 *reasons) {
    return look(d->index, "reasons", reasons);
}
int nvmlDeviceGetTotalEccErrors(struct device *d, int kind, int counter, u64 *count) {
    (void)counter;
    return look(d->index, kind ? "ecc1" : "ecc0", count);
}
int nvmlDeviceGetTotalEnergyConsumption(struct device *d, u64 *mj) { return look(d->index, "field83", mj); }
struct process { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *count, struct process *found) {
    unsigned there;
    int result = look32(d->index, "processes", &there);
    if (result) return result;
    if (there > *count) return 7;
    *count = there;
    for (unsigned i = 0; i < there; i++) found[i] = (struct process){1000 + i, 1 << 20, 0, 0};
    return 0;
}
struct field { unsigned id, scope; long long timestamp, latency; int kind, result; u64 value; };
int nvmlDeviceGetFieldValues(struct device *d, int count, struct field *values) {
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "field%u", values[i].id);
        values[i].kind = 3;
        values[i].result = look(d->index, name, &values[i].value);
    }
    return 0;
}
int nvmlEventSetCreate(void **set) { *set = devices; return 0; }
int nvmlEventSetFree(void *set) { (void)set; return 0; }
int nvmlDeviceRegisterEvents(struct device *d, u64 kinds, void *set) { (void)d; (void)kinds; (void)set; return 0; }
struct event { struct device *device; u64 kind, data; unsigned gpu_instance, compute_instance; };
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms) {
    char line[256], what[64];
    double at, now = elapsed();
    int of;
    u64 code;
    (void)set;
    (void)timeout_ms;
    FILE *table = fopen(getenv("NVML_STAND_IN"), "r");
    if (!table) return 999;
    while (fgets(line, sizeof line, table))
        if (sscanf(line, "%lf %d %63s %llu", &at, &of, what, &code) == 4 && !strcmp(what, "xid") && at <= now &&
            at > heard_until) {
            *event = (struct event){&devices[of], 8, code, 0, 0};
            heard_until = at;
            fclose(table);
            return 0;
        }
    fclose(table);
    return 10;
}
