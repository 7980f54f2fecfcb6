/* Preloaded: counts messages through UCX by endpoint. messages_by_pair.c reads the result. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

enum { MOST = 256 };

struct sent {
    void *endpoint;
    unsigned long count, bytes;
};

struct sent ucx_sent[MOST]; /* of each endpoint, in the order of their first messages */

void *ucp_tag_send_nbx(void *endpoint, const void *data, size_t bytes, uint64_t tag,
                       const void *parameters)
{
    static void *(*next)(void *, const void *, size_t, uint64_t, const void *);
    int i = 0;

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "ucp_tag_send_nbx");
    while (i < MOST - 1 && ucx_sent[i].endpoint != NULL && ucx_sent[i].endpoint != endpoint)
        i++;
    ucx_sent[i].endpoint = endpoint;
    ucx_sent[i].count++;
    ucx_sent[i].bytes += bytes;
    return next(endpoint, data, bytes, tag, parameters);
}
