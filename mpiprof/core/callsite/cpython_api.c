/* Python's C API, looked up with dlsym in a process that contains Python. */
#include <dlfcn.h>

#include "callsite/cpython_api.h"

struct python py;

/* Look up the functions. Returns false if the process has no Python, or lacks a required
 * function. */
bool cpython_api_find(void)
{
    bool found = true;

#define FIND(type, name, parameters)                                                               \
    *(void **)&py.name = dlsym(RTLD_DEFAULT, #name);                                               \
    found &= py.name != NULL;
    PYTHON_API(FIND)
#undef FIND
#define FIND(type, name, parameters) *(void **)&py.name = dlsym(RTLD_DEFAULT, #name);
    PYTHON_MORE(FIND)
#undef FIND
    py.runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    py.code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
    py.text_type = dlsym(RTLD_DEFAULT, "PyUnicode_Type");
    py.bytes_type = dlsym(RTLD_DEFAULT, "PyBytes_Type");
    *(void **)&py.current = dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");
    if (py.current == NULL)
        *(void **)&py.current = dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet");
    *(void **)&py.finalising = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    if (py.finalising == NULL)
        *(void **)&py.finalising = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    return found;
}
