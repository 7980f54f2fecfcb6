/* Synchronisation of the nodes' clocks (clock.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

bool clock_nodes(MPI_Comm comm);
void clock_synchronise(const char *when, int64_t deadline);
const char *clock_node(void);
uint64_t clock_node_hash(void);
int clock_node_count(void);
int clock_neighbour(void);
int clock_second_leader(void);
void clock_share(void);
int64_t clock_common(int64_t ns);
int64_t clock_bound(void);
bool clock_is_stale(void);
