/* Pauses of Python's garbage collector.
 *
 * CPython calls the functions in the list gc.callbacks before and after each collection, on the
 * thread that collects. This is the only interface for it. The program can see one more function in
 * the list; the function runs no Python code, raises no exception and returns None. It is added only
 * while the process has a single Python thread. Collections of subinterpreters are not counted,
 * because each interpreter has a list of its own.
 */
#include <string.h>

#include "callsite/callsite.h"

enum { TUPLE_OF_ARGUMENTS = 1 };

static void (*changed)(bool begins);

/* Receive ("start" or "stop", {...}). */
static object *collection_changed(object *module, object *arguments)
{
    object *const phase = py.PyTuple_GetItem(arguments, 0); /* borrowed */
    const uint32_t third =
        phase != NULL && py.PyUnicode_GetLength(phase) >= 4 ? py.PyUnicode_ReadChar(phase, 2) : 0;

    (void)module;
    if (third == 'a' || third == 'o')
        changed(third == 'a');
    else
        py.PyErr_Clear(); /* the program called the function with other arguments */
    return py.Py_BuildValue("");
}

/* Call a function at the begin and the end of each collection. Returns the obstacle, or NULL. */
const char *python_gc_start(void (*function)(bool begins))
{
    static struct python_method method = {"mpiprof_collection", collection_changed,
                                          TUPLE_OF_ARGUMENTS, NULL};

    changed = function;
    if (strstr(py.Py_GetVersion(), "free-threading") != NULL)
        return "a Python build without the GIL";
    return python_hook_add("gc", "callbacks", "append", &method)
               ? NULL
               : "Python has several threads, or its functions cannot be called";
}
