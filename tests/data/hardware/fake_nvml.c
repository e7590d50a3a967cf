/*
 * A library with the interface of NVML whose answers stand in a text file, so that the real pynvml
 * can be driven without a GPU. Signatures, codes and units are those of the NVML reference.
 *
 * The file is named by FAKE_NVML and read anew at every call, so that a test can change an answer
 * in the middle of a measurement. One answer a line: KEY VALUE. A value that begins with "!" is
 * the error code to return, and a key that is not there is NOT_SUPPORTED.
 *
 *     count 2                    gpu0.name NVIDIA Test        gpu0.uuid GPU-0000
 *     gpu0.memory_used 1048576   gpu0.power !3                gpu0.compute 4242:1048576,77:N
 *     gpu0.sleep_ms 500          (before the memory is told)
 *
 * With -DOLD_DRIVER it lacks the functions that drivers before 510 do not have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { UNTOLD = -1, SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef void *Device;

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    unsigned int gpu, memory;
} Utilization;

typedef struct {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
} Process;

static int index_of(Device device) { return (int)((size_t)device - 1); }

static int look_up(const char *key, char *value, size_t size) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    size_t length = strlen(key);
    if (!file) return UNTOLD;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) != 0 || line[length] != ' ') continue;
        fclose(file);
        line[strcspn(line, "\n")] = 0;
        if (line[length + 1] == '!') return atoi(line + length + 2);
        snprintf(value, size, "%s", line + length + 1);
        return SUCCESS;
    }
    fclose(file);
    return UNTOLD;
}

static int or_not_supported(int code) { return code == UNTOLD ? NOT_SUPPORTED : code; }

static int of_device(Device device, const char *figure, char *value, size_t size) {
    char key[64];
    snprintf(key, sizeof key, "gpu%d.%s", index_of(device), figure);
    return look_up(key, value, size);
}

static int number(Device device, const char *figure, unsigned long long *result) {
    char value[256];
    int code = of_device(device, figure, value, sizeof value);
    if (code == SUCCESS) *result = strtoull(value, NULL, 0);
    return or_not_supported(code);
}

static int small(Device device, const char *figure, unsigned int *result) {
    unsigned long long value;
    int code = number(device, figure, &value);
    if (code == SUCCESS) *result = (unsigned int)value;
    return code;
}

int nvmlInitWithFlags(unsigned int flags) {
    char value[256];
    (void)flags;
    int code = look_up("init", value, sizeof value);
    return code == UNTOLD ? SUCCESS : code;
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the fake library";
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    return or_not_supported(look_up("driver", version, length));
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    char value[256];
    int code = look_up("count", value, sizeof value);
    if (code == SUCCESS) *count = (unsigned int)atoi(value);
    return or_not_supported(code);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device *device) {
    char value[256];
    *device = (Device)(size_t)(index + 1);
    int code = of_device(*device, "handle", value, sizeof value);
    return code == UNTOLD ? SUCCESS : code;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
    char value[256];
    for (size_t number = 0; number < 16; number++) {
        *device = (Device)(number + 1);
        if (of_device(*device, "uuid", value, sizeof value) == SUCCESS && !strcmp(value, uuid))
            return SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetName(Device device, char *name, unsigned int length) {
    return or_not_supported(of_device(device, "name", name, length));
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned int length) {
    return or_not_supported(of_device(device, "uuid", uuid, length));
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
    unsigned long long used = 0, total = 0, sleep_ms = 0;
    if (number(device, "sleep_ms", &sleep_ms) == SUCCESS) {
        struct timespec pause = {(time_t)(sleep_ms / 1000), (long)(sleep_ms % 1000) * 1000000L};
        nanosleep(&pause, NULL);
    }
    int code = number(device, "memory_used", &used);
    if (code != SUCCESS) return code;
    code = number(device, "memory_total", &total);
    memory->used = used;
    memory->total = total;
    memory->free = total - used;
    return code;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization *rates) {
    rates->memory = 0;
    return small(device, "util", &rates->gpu);
}

int nvmlDeviceGetTemperature(Device device, int sensor, unsigned int *celsius) {
    (void)sensor;
    return small(device, "temperature", celsius);
}

int nvmlDeviceGetPowerUsage(Device device, unsigned int *milliwatts) {
    return small(device, "power", milliwatts);
}

int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned int *milliwatts) {
    return small(device, "power_limit", milliwatts);
}

int nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long *millijoules) {
    return number(device, "energy", millijoules);
}

int nvmlDeviceGetClockInfo(Device device, int type, unsigned int *megahertz) {
    return small(device, type == 2 ? "memory_clock" : "clock", megahertz);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *reasons) {
    return number(device, "throttle", reasons);
}

/* PID:BYTES,PID:N ... ; N is "not available", as under WSL2 and WDDM. */
static int list(Device device, const char *figure, unsigned int *count, Process *processes) {
    char value[256];
    unsigned int found = 0;
    int code = of_device(device, figure, value, sizeof value);
    if (code == UNTOLD) {
        *count = 0;
        return SUCCESS;
    }
    if (code != SUCCESS) return code;
    for (char *save = NULL, *part = strtok_r(value, ",", &save); part;
         part = strtok_r(NULL, ",", &save), found++) {
        char *size = strchr(part, ':');
        if (found < *count && processes) {
            processes[found].pid = (unsigned int)atoi(part);
            processes[found].memory = size[1] == 'N' ? ~0ULL : strtoull(size + 1, NULL, 0);
            processes[found].gpu_instance = processes[found].compute_instance = 0xFFFFFFFF;
        }
    }
    code = found > *count ? INSUFFICIENT_SIZE : SUCCESS;
    *count = found;
    return code;
}

#ifdef OLD_DRIVER
#define PROCESSES(kind) nvmlDeviceGet##kind##RunningProcesses_v2
#else
#define PROCESSES(kind) nvmlDeviceGet##kind##RunningProcesses_v3

int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *reasons) {
    return number(device, "throttle", reasons);
}
#endif

int PROCESSES(Compute)(Device device, unsigned int *count, Process *processes) {
    return list(device, "compute", count, processes);
}

int PROCESSES(Graphics)(Device device, unsigned int *count, Process *processes) {
    return list(device, "graphics", count, processes);
}
