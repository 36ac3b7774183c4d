#define _GNU_SOURCE
#include "scenario.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Scenario *present;
static struct timespec present_time;
static ino_t present_inode;

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = '\0';
    return text;
}

static void add_line(Section *section, char *line) {
    char *equals = strchr(line, '=');
    if (equals == NULL || section->count == MAX_ENTRIES) return;
    *equals = '\0';
    Entry *entry = &section->entries[section->count++];
    snprintf(entry->key, sizeof entry->key, "%s", trimmed(line));
    snprintf(entry->value, sizeof entry->value, "%s", trimmed(equals + 1));
}

static Scenario *read_scenario(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) return NULL;
    Scenario *scenario = calloc(1, sizeof *scenario);
    Section *section = &scenario->driver;
    char line[MAX_KEY + MAX_VALUE + 8];
    while (fgets(line, sizeof line, file) != NULL) {
        char *text = trimmed(line);
        if (*text == '\0' || *text == '#') continue;
        if (strcmp(text, "[driver]") == 0) section = &scenario->driver;
        else if (strcmp(text, "[gpu]") == 0 && scenario->gpus < MAX_GPUS) section = &scenario->gpu[scenario->gpus++];
        else add_line(section, text);
    }
    fclose(file);
    return scenario;
}

/* Reads the file if it is another one than before. A file that is not there leaves the last scenario in force. */
static void refresh(void) {
    const char *path = getenv("NVML_SIM_SCENARIO");
    struct stat about;
    if (path == NULL || stat(path, &about) != 0) return;
    bool same = present != NULL && about.st_ino == present_inode && about.st_mtim.tv_sec == present_time.tv_sec &&
                about.st_mtim.tv_nsec == present_time.tv_nsec;
    if (same) return;
    Scenario *read = read_scenario(path);
    if (read == NULL) return;
    free(present);
    present = read;
    present_time = about.st_mtim;
    present_inode = about.st_ino;
}

const Scenario *scenario_acquire(void) {
    static const Scenario nothing;
    pthread_mutex_lock(&lock);
    refresh();
    return present != NULL ? present : &nothing;
}

void scenario_release(void) {
    pthread_mutex_unlock(&lock);
}

const char *section_find(const Section *section, const char *key, int nth) {
    for (int i = 0; i < section->count; i++)
        if (strcmp(section->entries[i].key, key) == 0 && nth-- == 0) return section->entries[i].value;
    return NULL;
}

bool section_number(const Section *section, const char *key, int index, double *number) {
    char indexed[MAX_KEY + 16];
    snprintf(indexed, sizeof indexed, "%s.%d", key, index);
    const char *value = index >= 0 ? section_find(section, indexed, 0) : NULL;
    if (value == NULL) value = section_find(section, key, 0);
    if (value == NULL) return false;
    *number = strtod(value, NULL);
    return true;
}
