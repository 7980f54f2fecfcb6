/* Prints the corrections of predictions by mpiprof/core/selection/online/model_correction.c,
 * without MPI.
 *
 *     selection_model_correction LEARNED {OPERATION ALGORITHM BYTES MEMBERS} ...
 *
 * LEARNED is the launcher's data from other jobs. Prints one factor per query.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/operation.h"
#include "base/recorder.h"
#include "executor/library_algorithm.h"
#include "executor/variant.h"
#include "schedule/algorithms/catalogue.h"
#include "selection/online/selection.h"
#include "tracefile/tracefile.h"

static const struct algorithm reduce_ring = {.operation = "reduce", .name = "ring"};
static const struct algorithm reduce_tree = {.operation = "reduce", .name = "tree"};
static const struct algorithm bcast_tree = {.operation = "bcast", .name = "tree"};
const struct algorithm *const catalogue[] = {&reduce_ring, &reduce_tree, &bcast_tree};
const int catalogue_count = 3;
struct recorder recorder;
const char *const operation_names[OP_COUNT] = {OPERATION_NAMES};
static const struct library_algorithm own_ring = {
    .operation = OP_reduce, .name = "ring", .similar = "ring", .label = "native:ring"};

const struct algorithm *catalogue_find(const char *operation, const char *name, bool inter)
{
    for (int i = 0; i < catalogue_count; i++)
        if (catalogue[i]->inter == inter && strcmp(catalogue[i]->operation, operation) == 0 &&
            strcmp(catalogue[i]->name, name) == 0)
            return catalogue[i];
    return NULL;
}

const struct library_algorithm *mpi_t_algorithm_find(const char *operation, const char *name)
{
    return strcmp(operation, "reduce") == 0 && strcmp(name, "ring") == 0 ? &own_ring : NULL;
}

const char *variant_own(const char *name)
{
    return strncmp(name, "native:", 7) == 0 ? name + 7 : NULL;
}

void recorder_lock(void)
{
}

void recorder_unlock(void)
{
}

void recorder_print(const char *format, ...)
{
    (void)format;
}

bool file_write(int descriptor, const struct text *t)
{
    return descriptor >= 0 && t != NULL;
}

void meta_timestamp(char *stamp, size_t room)
{
    (void)stamp, (void)room;
}

const char *meta_library(void)
{
    return "";
}

int64_t rank_test_median(const struct candidate *c)
{
    return c->samples[0];
}

int main(int argc, char **argv)
{
    recorder.options.learned = argv[1];
    model_correction_start();
    for (int i = 2; i + 3 < argc; i += 4) {
        const bool own = strcmp(argv[i + 1], own_ring.label) == 0;
        const char *const name = own ? own_ring.similar : argv[i + 1];

        for (int j = 0; j < catalogue_count; j++) {
            const struct variant v = {.algorithm = own ? NULL : catalogue[j],
                                      .library_algorithm = own ? &own_ring : NULL};

            if (strcmp(catalogue[j]->operation, argv[i]) == 0 &&
                strcmp(catalogue[j]->name, name) == 0)
                printf("%.6f\n", model_correction_factor(&v, catalogue[j], atoll(argv[i + 2]),
                                                         atoi(argv[i + 3])));
        }
    }
    return 0;
}
