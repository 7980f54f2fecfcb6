/* The type of the C++ exception that ends a process.
 *
 * An exception that no handler catches ends in abort(), so SIGABRT is delivered while it is current.
 * The C++ runtime returns its type without a lock. The line is written without heap memory.
 *
 * Callers: fatal_signals.c, in the signal handler.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/base.h"
#include "init/init.h"
#include "record/record.h"
#include "tracefile/tracefile.h"

enum { NAME_BYTES = 200 };

struct type_info { /* of the C++ ABI */
    const void *table;
    const char *name; /* mangled; begins with * for types of one file */
};
static const struct type_info *(*current_type)(void);

/* Look up the function, because dlsym is unsafe in a signal handler. */
void cxx_exception_find(void)
{
    *(void **)&current_type = dlsym(RTLD_DEFAULT, "__cxa_current_exception_type");
}

void cxx_exception_write(void)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.";
    const struct type_info *const type = current_type != NULL ? current_type() : NULL;
    const char *const name = type != NULL ? type->name + (type->name[0] == '*') : "";
    const size_t length = strspn(name, letters);

    if (length == 0 || length > NAME_BYTES || name[length] != '\0')
        return;
    char line[400];
    struct text t = {.bytes = line, .room = sizeof line};

    text_add(&t,
             "{\"rank\": %d, \"exception\": {\"at_ns\": %lld, \"how\": \"c++\", \"type\": \"%s\", ",
             recorder.rank, (long long)now_ns(), name);
    text_add(&t, "\"message\": \"\", \"frames\": []}}\n");
    file_write_line(&t);
}
