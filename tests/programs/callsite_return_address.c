/* Test of return addresses: prints 1 or 0 for each of four addresses. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "callsite/callsite.h"

enum { PAGE = 65536 };

static _Alignas(PAGE) char gap[PAGE]; /* of this object, but not readable */

static __attribute__((noinline)) const void *return_address(void)
{
    return __builtin_return_address(0);
}

int main(void)
{
    const char *const behind_call = return_address();

    if (mprotect(gap, PAGE, PROT_NONE) != 0)
        return 1;
    printf("%d %d %d %d\n", return_address_is_possible(behind_call),
           return_address_is_possible(gap + PAGE / 2),
           return_address_is_possible((const void *)(uintptr_t)8),
           return_address_is_possible(
               mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
    return 0;
}
