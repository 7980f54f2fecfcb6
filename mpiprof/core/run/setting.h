/* The library's control variables that name its algorithms: setting.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/native.h"

enum need { /* of an algorithm; bits by these numbers */
#define NEED(word, text) NEED_##word,
            OWN_NEEDS(NEED)
#undef NEED
                NEEDS
};
struct own_algorithm { /* one of the library's own */
    int operation;
    const char *name;
    int number; /* the value of its control variable */
    unsigned needs;
    bool segmented;    /* it sends in segments of a size that it can be told */
    const char *like;  /* the catalogue's algorithm that takes about as long; "": none does */
    const char *label; /* native:ring */
};
enum obstacle { /* to naming algorithms to the library; the greatest of all members counts */
                OBSTACLE_NONE,
                OBSTACLE_INTERFACE,
                OBSTACLE_THREADS,
                OBSTACLE_SESSIONS,
                OBSTACLE_SETTINGS,
                OBSTACLE_NOT_ASKED, /* nobody wants it */
                /* Of a single call: */
                OBSTACLE_FIXED, /* the library has no variable for it, or none that can be written */
                OBSTACLE_DUPLICATE, /* there was none to be had */
                OBSTACLE_PROGRAM,   /* has set the variable itself */
                OBSTACLES
};
void setting_start(void);
enum obstacle setting_obstacle(void);
const struct own_algorithm *setting_own(const char *operation, const char *name);
int setting_own_count(void);
const struct own_algorithm *setting_own_at(int index);
bool setting_has(int operation, bool segment);
int64_t setting_facts(void);
bool setting_put(int operation, int number);
bool setting_put_all(int number, int64_t segment);
void setting_back(void);
void setting_end(void);
