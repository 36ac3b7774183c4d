/* A scenario: what the simulated driver and its GPUs report. Read from a text file, again whenever it changes. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>

enum { MAX_GPUS = 16, MAX_ENTRIES = 512, MAX_KEY = 64, MAX_VALUE = 160 };

typedef struct {
    char key[MAX_KEY];
    char value[MAX_VALUE];
} Entry;

/* The lines of one section, in their order; a key may stand several times. */
typedef struct {
    int count;
    Entry entries[MAX_ENTRIES];
} Section;

typedef struct {
    Section driver;
    int gpus;
    Section gpu[MAX_GPUS];
} Scenario;

/* The present scenario; the lock is held until scenario_release. */
const Scenario *scenario_acquire(void);
void scenario_release(void);

/* The value of the nth line with this key; NULL if there are fewer. */
const char *section_find(const Section *section, const char *key, int nth);

/* The number at `key`, or at `key.index` if that is there; false if neither is. */
bool section_number(const Section *section, const char *key, int index, double *number);

#endif
