/* A table of values over time, from which the libraries that stand in for drivers answer.

   The environment variable TABLE names a file with a line per value: SECONDS GPU NAME VALUE. A call answers with
   the last line of its GPU and name whose time, since the library was initialized, has come; the name `all`
   stands for every name, GPU -1 for the whole library. VALUE is a whole number; `error N` makes the call return
   N; `sleep MS N` waits first. A name without a line is not supported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long u64;
static struct timespec began;

static double elapsed(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - began.tv_sec) + (now.tv_nsec - began.tv_nsec) / 1e9;
}

static int look(int gpu, const char *name, u64 *value) {
    char line[256], what[64], kind[64];
    double at, now = elapsed();
    int of, result = UNSUPPORTED;
    unsigned delay = 0;
    FILE *table = fopen(getenv(TABLE), "r");
    if (!table) return UNKNOWN_ERROR;
    while (fgets(line, sizeof line, table)) {
        int rest = 0;
        if (sscanf(line, "%lf %d %63s %n", &at, &of, what, &rest) < 3 || of != gpu || at > now) continue;
        if (strcmp(what, name) && strcmp(what, "all")) continue;
        delay = 0;
        if (sscanf(line + rest, "error %d", &result) == 1) continue;
        u64 given;
        if (sscanf(line + rest, "sleep %u %llu", &delay, &given) == 2 || sscanf(line + rest, "%llu", &given) == 1) {
            *value = given;
            result = 0;
        } else if (sscanf(line + rest, "%63s", kind) == 1) result = UNKNOWN_ERROR;
    }
    fclose(table);
    if (delay) {
        struct timespec pause = {delay / 1000, (delay % 1000) * 1000000L};
        nanosleep(&pause, NULL);
    }
    return result;
}
