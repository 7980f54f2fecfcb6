/* Test whether an address in a sampled stack can be a return address.
 *
 * The kernel follows frame pointers. In code without them it follows any value, and the addresses
 * that it reports may lie anywhere. A return address is in a loaded object and follows a call. The
 * kernel copies the bytes of the call, because memory in a loaded object need not be readable: an
 * object can have gaps between its segments. Where the kernel refuses the copy, no address passes.
 * Threads: any.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "callsite/callsite.h"

enum { LONGEST_CALL = 7 };

/* Return true if code ends with a call. code: LONGEST_CALL bytes. */
static bool ends_with_call(const unsigned char *code)
{
    const unsigned char *const end = code + LONGEST_CALL;

#if defined(__x86_64__)
    static const int lengths[] = {2, 3, 4, 6, 7}; /* of an indirect call, from its opcode */

    if (end[-5] == 0xe8)
        return true;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (end[-lengths[i]] == 0xff && (end[1 - lengths[i]] & 0x38) == 0x10)
            return true;
    return false;
#elif defined(__aarch64__)
    uint32_t word;

    memcpy(&word, end - sizeof word, sizeof word);
    return (word & 0xfc000000) == 0x94000000 || (word & 0xfefff000) == 0xd63f0000;
#else
    return end != NULL;
#endif
}

bool return_address_is_possible(const void *address)
{
    unsigned char code[LONGEST_CALL];
    Dl_info found;

    if ((uintptr_t)address <= LONGEST_CALL || dladdr((const char *)address - 1, &found) == 0)
        return false;
    const struct iovec here = {code, sizeof code};
    const struct iovec there = {(char *)address - LONGEST_CALL, sizeof code};

    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)sizeof code &&
           ends_with_call(code);
}
