/* Mutexes of the recorder (lock.c). */
#pragma once
#include <pthread.h>

void lock_take(pthread_mutex_t *lock);
void lock_give(pthread_mutex_t *lock);
int lock_keep_thread(void);
void lock_free_thread(int state);
