/* AMD SMI's functions over a table, for machines without a GPU, as the library of ROCm 7.0 has them.

   $AMD_SMI_STAND_IN names the table (see stand_in_table.h). The names: count, init (an error of amdsmi_init), socket
   (its number; without a line, each GPU has its own), metrics (an error of the whole call; any number: the GPU has
   them), each field of amdsmi_gpu_metrics_t by its name (`xgmi_read_data_acc.3` for one of several), memory_used,
   memory_total, ecc_enabled (a mask of blocks), ecc_corrected, ecc_uncorrected, kfd_id, chatter (it prints a line
   on standard output). */
#include <stdint.h>
#define TABLE "AMD_SMI_STAND_IN"
#define UNSUPPORTED 2
#define UNKNOWN_ERROR 7
#include "stand_in_table.h"

#define MOST 16
struct device { int index, socket; };
static struct device devices[MOST];
static int sockets[MOST];

struct gpu_metrics {
    uint32_t common_header;
    uint16_t temperature_edge, temperature_hotspot, temperature_mem, temperature_vrgfx, temperature_vrsoc;
    uint16_t temperature_vrmem, average_gfx_activity, average_umc_activity, average_mm_activity;
    uint16_t average_socket_power;
    uint64_t energy_accumulator, system_clock_counter;
    uint16_t average_gfxclk_frequency, average_socclk_frequency, average_uclk_frequency, average_vclk0_frequency;
    uint16_t average_dclk0_frequency, average_vclk1_frequency, average_dclk1_frequency, current_gfxclk;
    uint16_t current_socclk, current_uclk, current_vclk0, current_dclk0, current_vclk1, current_dclk1;
    uint32_t throttle_status;
    uint16_t current_fan_speed, pcie_link_width, pcie_link_speed;
    uint32_t gfx_activity_acc, mem_activity_acc;
    uint16_t temperature_hbm[4];
    uint64_t firmware_timestamp;
    uint16_t voltage_soc, voltage_gfx, voltage_mem;
    uint64_t indep_throttle_status;
    uint16_t current_socket_power, vcn_activity[4];
    uint32_t gfxclk_lock_status;
    uint16_t xgmi_link_width, xgmi_link_speed;
    uint64_t pcie_bandwidth_acc, pcie_bandwidth_inst, pcie_l0_to_recov_count_acc, pcie_replay_count_acc;
    uint64_t pcie_replay_rover_count_acc, xgmi_read_data_acc[8], xgmi_write_data_acc[8];
    uint16_t current_gfxclks[8], current_socclks[4], current_vclk0s[4], current_dclk0s[4], jpeg_activity[32];
    uint32_t pcie_nak_sent_count_acc, pcie_nak_rcvd_count_acc;
    uint64_t accumulation_counter, prochot_residency_acc, ppt_residency_acc, socket_thm_residency_acc;
    uint64_t vr_thm_residency_acc, hbm_thm_residency_acc;
    uint8_t newer[4544 - 472];
};
_Static_assert(sizeof(struct gpu_metrics) == 4544, "the size in ROCm 7.0");

#define ONE(name) {#name, offsetof(struct gpu_metrics, name), sizeof((struct gpu_metrics *)0)->name, 1}
#define MANY(name, count) {#name, offsetof(struct gpu_metrics, name), sizeof((struct gpu_metrics *)0)->name / count, count}
#include <stddef.h>
static const struct { const char *name; size_t at, size; int count; } fields[] = {
    ONE(temperature_edge), ONE(temperature_hotspot), ONE(temperature_mem), ONE(average_gfx_activity),
    ONE(average_umc_activity), ONE(average_socket_power), ONE(energy_accumulator), ONE(average_gfxclk_frequency),
    ONE(average_uclk_frequency), ONE(current_gfxclk), ONE(current_uclk), ONE(indep_throttle_status),
    ONE(current_socket_power), MANY(xgmi_read_data_acc, 8), MANY(xgmi_write_data_acc, 8), MANY(current_gfxclks, 8),
    ONE(accumulation_counter), ONE(prochot_residency_acc), ONE(ppt_residency_acc), ONE(socket_thm_residency_acc),
    ONE(vr_thm_residency_acc), ONE(hbm_thm_residency_acc),
};

static unsigned gpus(void) {
    u64 count = 0;
    look(-1, "count", &count);
    return count > MOST ? MOST : count;
}

int amdsmi_init(uint64_t flags) {
    u64 value;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (!(flags & 2)) return UNSUPPORTED;
    if (!look(-1, "chatter", &value)) puts("a library that prints");
    fflush(stdout);
    for (unsigned i = 0; i < MOST; i++) {
        devices[i] = (struct device){i, i};
        if (!look(i, "socket", &value)) devices[i].socket = value;
        sockets[i] = i;
    }
    int result = look(-1, "init", &value);
    return result == UNSUPPORTED ? 0 : result;
}
int amdsmi_shut_down(void) { return 0; }
int amdsmi_status_code_to_string(int status, const char **words) {
    *words = status ? "an error" : "success";
    return 0;
}
void amdsmi_free_name_value_pairs(void *pairs) { (void)pairs; }

static int on_socket(int socket, void **handles) {
    int found = 0;
    for (unsigned i = 0; i < gpus(); i++)
        if (devices[i].socket == socket) {
            if (handles) handles[found] = &devices[i];
            found++;
        }
    return found;
}
int amdsmi_get_socket_handles(uint32_t *count, void **handles) {
    uint32_t found = 0;
    for (int i = 0; i < MOST; i++)
        if (on_socket(i, NULL)) {
            if (handles) handles[found] = &sockets[i];
            found++;
        }
    *count = found;
    return 0;
}
int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    *count = on_socket(*(int *)socket, handles);
    return 0;
}
int amdsmi_get_gpu_metrics_info(struct device *d, struct gpu_metrics *metrics) {
    u64 value;
    int failed = look(d->index, "metrics", &value);
    if (failed) return failed;
    memset(metrics, 0xFF, sizeof *metrics);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (int n = 0; n < fields[i].count; n++) {
            char name[80];
            if (fields[i].count == 1) snprintf(name, sizeof name, "%s", fields[i].name);
            else snprintf(name, sizeof name, "%s.%d", fields[i].name, n);
            if (!look(d->index, name, &value))
                memcpy((char *)metrics + fields[i].at + n * fields[i].size, &value, fields[i].size);
        }
    return 0;
}
int amdsmi_get_energy_count(struct device *d, uint64_t *counter, float *resolution, uint64_t *timestamp) {
    u64 found;
    int failed = look(d->index, "metrics", &found);
    if (failed) return failed;
    if (look(d->index, "energy_accumulator", &found)) found = UINT64_MAX;
    *counter = found;
    *resolution = 15.3F;
    *timestamp = elapsed() * 1e9;
    return 0;
}
int amdsmi_get_gpu_activity(struct device *d, uint32_t *usage) {
    struct gpu_metrics metrics;
    int failed = amdsmi_get_gpu_metrics_info(d, &metrics);
    if (failed) return failed;
    usage[0] = metrics.average_gfx_activity;
    usage[1] = metrics.average_umc_activity;
    usage[2] = metrics.average_mm_activity;
    return 0;
}
static int amount(struct device *d, uint32_t kind, const char *name, uint64_t *bytes) {
    u64 found;
    int failed = kind ? UNSUPPORTED : look(d->index, name, &found);
    if (!failed) *bytes = found;
    return failed;
}
int amdsmi_get_gpu_memory_usage(struct device *d, uint32_t kind, uint64_t *bytes) {
    return amount(d, kind, "memory_used", bytes);
}
int amdsmi_get_gpu_memory_total(struct device *d, uint32_t kind, uint64_t *bytes) {
    return amount(d, kind, "memory_total", bytes);
}
int amdsmi_get_gpu_ecc_enabled(struct device *d, uint64_t *blocks) { return amount(d, 0, "ecc_enabled", blocks); }
int amdsmi_get_gpu_total_ecc_count(struct device *d, uint64_t *counts) {
    uint64_t corrected, uncorrected;
    int failed = amount(d, 0, "ecc_corrected", &corrected);
    if (!failed) failed = amount(d, 0, "ecc_uncorrected", &uncorrected);
    if (failed) return failed;
    counts[0] += corrected; /* so does the real library */
    counts[1] += uncorrected;
    return 0;
}
int amdsmi_get_gpu_kfd_info(struct device *d, uint64_t *info) {
    if (amount(d, 0, "kfd_id", info)) info[0] = UINT64_MAX;
    return 0;
}
int amdsmi_get_gpu_device_uuid(struct device *d, uint32_t *length, char *uuid) {
    u64 value;
    int failed = look(d->index, "metrics", &value);
    return failed ? failed : snprintf(uuid, *length, "%08x-0000-1000-8000-000000000000", d->index) < 0;
}
struct asic { char market_name[256], rest[640]; };
int amdsmi_get_gpu_asic_info(struct device *d, struct asic *asic) {
    u64 value;
    int failed = look(d->index, "metrics", &value);
    if (failed) return failed;
    memset(asic, 0, sizeof *asic);
    strcpy(asic->market_name, "AMD Instinct Stand-in");
    return 0;
}
