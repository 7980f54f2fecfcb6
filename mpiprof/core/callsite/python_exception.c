/* Exceptions that end a Python program or a thread of it.
 *
 * CPython announces an uncaught exception to audit hooks before it calls sys.excepthook, whichever
 * function the program has set there. So nothing that the program can see is replaced. SystemExit is
 * not announced. An exception in a thread is not announced: the private function by which a Thread
 * makes the method that calls threading.excepthook is wrapped. MPI_Abort in an `except` block finds
 * the exception that the thread handles. pytest handles the exception of a failed test: the private
 * function by which it excludes expected exceptions is wrapped.
 *
 * No code of the program runs here: a message is read only if its class has a __str__ in C, and if
 * the exception's arguments are strings and numbers.
 *
 * Threads: any, with the GIL.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/recorder.h"
#include "callsite/callsite.h"
#include "tracefile/tracefile.h"

enum { MOST_EXCEPTIONS = 100, MOST_ARGUMENTS = 8, MESSAGE_BYTES = 200, TYPE_BYTES = 100 };
enum { MOST_ENTRIES = 64, ARGUMENT_TUPLE = 1, KEYWORDS = 2 };

/* Functions and types that only this file needs. */
#define PYTHON_EXCEPTIONS(X)                                                                       \
    X(int, PySys_AddAuditHook, (int (*)(const char *, object *, void *), void *))                  \
    X(void, PyErr_GetExcInfo, (object **, object **, object **))                                   \
    X(int, PyErr_GivenExceptionMatches, (object *, object *))                                      \
    X(object *, PyObject_Str, (object *))                                                          \
    X(object *, PyObject_Type, (object *))                                                         \
    X(int, PyObject_SetAttrString, (object *, const char *, object *))                             \
    X(object *, PyObject_Call, (object *, object *, object *))                                     \
    X(object *, PyImport_GetModuleDict, (void))                                                    \
    X(object *, PyDict_GetItemString, (object *, const char *))                                    \
    X(void, Py_IncRef, (object *))                                                                 \
    X(ptrdiff_t, PyTuple_Size, (object *))                                                         \
    X(long, PyLong_AsLong, (object *))                                                             \
    X(int, PyUnicode_CompareWithASCIIString, (object *, const char *))

#define MEMBER(type, name, parameters) type(*name) parameters;
static struct {
    PYTHON_EXCEPTIONS(MEMBER)
    object *slot_type, *tuple_type, *long_type, *float_type, *none_type, *true_value;
    object **system_exit;
} api;
#undef MEMBER

static atomic_int written;
static const object *last_written;                     /* only compared; changed with the GIL */
static bool threads_are_imported, threads_are_wrapped; /* changed with the GIL */

static bool api_find(void)
{
    bool complete = true;

#define FIND(type, name, parameters)                                                               \
    *(void **)&api.name = dlsym(RTLD_DEFAULT, #name);                                              \
    complete &= api.name != NULL;
    PYTHON_EXCEPTIONS(FIND)
#undef FIND
    api.slot_type = dlsym(RTLD_DEFAULT, "PyWrapperDescr_Type");
    api.tuple_type = dlsym(RTLD_DEFAULT, "PyTuple_Type");
    api.long_type = dlsym(RTLD_DEFAULT, "PyLong_Type");
    api.float_type = dlsym(RTLD_DEFAULT, "PyFloat_Type");
    api.none_type = dlsym(RTLD_DEFAULT, "_PyNone_Type");
    api.true_value = dlsym(RTLD_DEFAULT, "_Py_TrueStruct");
    api.system_exit = dlsym(RTLD_DEFAULT, "PyExc_SystemExit");
    return complete && api.none_type != NULL && api.slot_type != NULL && api.tuple_type != NULL &&
           api.system_exit != NULL && py.can_sample;
}

static void release(object *o)
{
    if (o != NULL)
        py.Py_DecRef(o);
}

/* Return a new reference to an attribute, or NULL. */
static object *attribute(object *o, const char *name)
{
    object *const value = o != NULL ? py.PyObject_GetAttrString(o, name) : NULL;

    if (o != NULL && value == NULL)
        py.PyErr_Clear();
    return value;
}

static bool has_type(object *o, const object *type)
{
    object *const found = api.PyObject_Type(o);

    release(found);
    return type != NULL && found == type;
}

/* Return true if str() of the value runs no code of the program. */
static bool is_plain(object *value)
{
    return has_type(value, py.text_type) || has_type(value, api.long_type) ||
           has_type(value, api.float_type) || has_type(value, api.none_type);
}

/* Return true if str() of the exception runs no code of the program. */
static bool has_plain_message(object *type, object *exception)
{
    object *const method = attribute(type, "__str__");
    object *const arguments = attribute(exception, "args");
    bool plain = method != NULL && has_type(method, api.slot_type) && arguments != NULL &&
                 has_type(arguments, api.tuple_type);
    const ptrdiff_t count = plain ? api.PyTuple_Size(arguments) : 0;

    plain = plain && count <= MOST_ARGUMENTS;
    for (ptrdiff_t i = 0; plain && i < count; i++)
        plain = is_plain(py.PyTuple_GetItem(arguments, i));
    release(method);
    release(arguments);
    return plain;
}

/* Append a str as a string of JSON, cut to a number of bytes. */
static void string_add(struct text *t, const object *string, size_t most)
{
    struct text bytes = {0};

    if (string != NULL && py.PyUnicode_GetLength(string) > 0)
        python_site_add_text(&bytes, string, most);
    text_json(t, bytes.bytes != NULL ? bytes.bytes : "", -1);
    text_free(&bytes);
}

/* ---- place */

/* Return true for files of Python and of installed packages. */
static bool is_installed(const char *file)
{
    return strstr(file, "-packages/") != NULL || strstr(file, "/lib/python3") != NULL ||
           strncmp(file, "<frozen ", 8) == 0 || python_site_is_skipped_file(file);
}

/* Append the location of an entry of a traceback. Returns true if it is in the program's files. */
static bool location_read(struct text *t, object *entry)
{
    object *const frame = attribute(entry, "tb_frame"), *const code = attribute(frame, "f_code");
    object *const file = attribute(code, "co_filename"), *const name = attribute(code, "co_name");
    object *const number = attribute(entry, "tb_lineno");
    const long line = number != NULL ? api.PyLong_AsLong(number) : 0;
    const struct frame_place place = {.file = file, .name = name, .line = line > 0 ? (int)line : 0};
    struct text path = {0};

    t->length = 0;
    if (number == NULL || line < 0)
        py.PyErr_Clear();
    if (file != NULL && name != NULL) {
        python_site_add_text(&path, file, PATH_BYTES);
        python_site_add_location(t, &place);
    }
    const bool of_program = path.bytes != NULL && !is_installed(path.bytes);
    object *const all[] = {frame, code, file, name, number};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        release(all[i]);
    text_free(&path);
    return of_program;
}

/* Return the next inner entry of a traceback, or NULL. The previous entry is released. */
static object *entry_step(object *entry)
{
    object *const next = attribute(entry, "tb_next");

    release(entry);
    if (next == NULL || !has_type(next, api.none_type))
        return next;
    release(next);
    return NULL;
}

static object *entry_first(object *traceback)
{
    object *const entry = traceback != NULL ? attribute(traceback, "tb_next") : NULL;

    release(entry);
    if (entry == NULL) /* None, or another object that a program has passed */
        return NULL;
    api.Py_IncRef(traceback);
    return traceback;
}

/* Append the location where an exception was raised: the innermost of the last entries of the
 * traceback that is in the program's files, or else the innermost one. */
static void place_add(struct text *t, object *traceback)
{
    struct text any = {0}, program = {0};
    int count = 0;

    for (object *entry = entry_first(traceback); entry != NULL; entry = entry_step(entry))
        count++;
    for (object *entry = entry_first(traceback); entry != NULL; entry = entry_step(entry))
        if (count-- <= MOST_ENTRIES && location_read(&any, entry)) {
            const struct text swapped = any;

            any = program;
            program = swapped;
        }
    const struct text *const chosen = program.length > 0 ? &program : &any;

    if (chosen->length > 0)
        text_bytes(t, chosen->bytes, chosen->length);
    text_free(&any);
    text_free(&program);
}

/* ---- the line of the tables */

/* Write an exception. how: "uncaught", "thread", "abort" or "test". */
static void exception_write(object *type, object *exception, object *traceback, const char *how)
{
    if (type == NULL || exception == NULL || !atomic_load(&recorder.active) || recorder.passive ||
        api.PyErr_GivenExceptionMatches(type, *api.system_exit) ||
        atomic_fetch_add(&written, 1) >= MOST_EXCEPTIONS)
        return;
    const int64_t at_ns = now_ns();

    last_written = exception;
    object *const name = attribute(type, "__name__");
    const bool named = name != NULL && has_type(name, py.text_type);
    object *const message = has_plain_message(type, exception) ? api.PyObject_Str(exception) : NULL;
    struct text t = {0}, place = {0};

    place_add(&place, traceback);
    text_add(&t, "{\"rank\": %d, \"exception\": {\"at_ns\": %lld, \"how\": \"%s\", \"type\": ",
             recorder.rank, (long long)at_ns, how);
    string_add(&t, named ? name : NULL, TYPE_BYTES);
    text_add(&t, ", \"message\": ");
    string_add(&t, message, MESSAGE_BYTES);
    text_add(&t, ", \"frames\": [%s]}}\n", place.bytes != NULL ? place.bytes : "");
    if (!t.cut)
        file_write_line(&t);
    if (py.PyErr_Occurred() != NULL)
        py.PyErr_Clear();
    text_free(&t);
    text_free(&place);
    release(name);
    release(message);
}

/* Write the exception that the calling thread handles, unless it is `known`. */
static void handled_write(const object *known, const char *how)
{
    object *type = NULL, *exception = NULL, *traceback = NULL;

    api.PyErr_GetExcInfo(&type, &exception, &traceback);
    /* Outside of `except` blocks, the three are None. */
    if (exception != known && exception != NULL && !has_type(exception, api.none_type))
        exception_write(type, exception, traceback, how);
    release(type);
    release(exception);
    release(traceback);
}

/* ---- exceptions in threads */

/* Called instead of the method that calls threading.excepthook, in the thread's except block. */
static object *thread_failed(object *method, object *arguments)
{
    handled_write(NULL, "thread");
    return api.PyObject_Call(method, arguments, NULL);
}

/* Called instead of threading._make_invoke_excepthook, which each new Thread calls for its method. */
static object *method_make(object *maker, object *arguments)
{
    static struct python_method definition = {"mpiprof_failed", thread_failed, ARGUMENT_TUPLE};
    object *const method = api.PyObject_Call(maker, arguments, NULL);
    object *const made = method != NULL ? py.PyCFunction_NewEx(&definition, method, NULL) : NULL;

    if (made == NULL)
        return method;
    release(method);
    return made;
}

/* Replace a function of a module that has an attribute `last` by one that receives the function. */
static bool function_wrap(const char *module_name, const char *last, const char *name,
                          struct python_method *definition)
{
    object *const modules = api.PyImport_GetModuleDict();
    object *const module =
        modules != NULL ? api.PyDict_GetItemString(modules, module_name) : NULL; /* borrowed */
    object *const ready = attribute(module, last);
    object *const function = ready != NULL ? attribute(module, name) : NULL;
    object *const made = function != NULL ? py.PyCFunction_NewEx(definition, function, NULL) : NULL;
    const bool wrapped = made != NULL && api.PyObject_SetAttrString(module, name, made) == 0;

    if (!wrapped && py.PyErr_Occurred() != NULL)
        py.PyErr_Clear();
    release(ready);
    release(function);
    release(made);
    return wrapped;
}

/* Wrap the private function of the module threading, if the module is complete. */
static void threads_wrap(void)
{
    static struct python_method definition = {"mpiprof_make", method_make, ARGUMENT_TUPLE};

    threads_are_wrapped = function_wrap("threading", "_after_fork", /* of the module's last lines */
                                        "_make_invoke_excepthook", &definition);
}

/* ---- failed tests */

/* Called instead of pytest's function, which returns True if a call raised an unexpected exception. */
static object *test_check(object *check, object *arguments, object *keywords)
{
    object *const result = api.PyObject_Call(check, arguments, keywords);

    if (result == NULL || result != api.true_value || api.PyTuple_Size(arguments) < 1)
        return result;
    object *const info = attribute(py.PyTuple_GetItem(arguments, 0), "excinfo");
    object *raised[] = {attribute(info, "type"), attribute(info, "value"), attribute(info, "tb")};

    exception_write(raised[0], raised[1], raised[2], "test");
    for (int i = 0; i < 3; i++)
        release(raised[i]);
    release(info);
    return result;
}

static void tests_wrap(void)
{
    static const char name[] = "check_interactive_exception";
    static struct python_method definition = {
        "mpiprof_test_check", (object * (*)(object *, object *))(void (*)(void))test_check,
        ARGUMENT_TUPLE | KEYWORDS};

    function_wrap("_pytest.runner", name, name, &definition);
}

/* ---- audit */

/* An event while the module is imported comes before its import is complete. */
static int event_audit(const char *event, object *arguments, void *unused)
{
    (void)unused;
    if (event[0] == 's' && strcmp(event, "sys.excepthook") == 0)
        exception_write(py.PyTuple_GetItem(arguments, 1), py.PyTuple_GetItem(arguments, 2),
                        py.PyTuple_GetItem(arguments, 3), "uncaught");
    else if (!threads_are_wrapped && threads_are_imported)
        threads_wrap();
    else if (!threads_are_wrapped && strcmp(event, "import") == 0) {
        object *const name = py.PyTuple_GetItem(arguments, 0);

        threads_are_imported = name != NULL && has_type(name, py.text_type) &&
                               api.PyUnicode_CompareWithASCIIString(name, "threading") == 0;
    }
    return 0;
}

static bool holds_gil(void)
{
    object *const mine = py.PyGILState_GetThisThreadState();

    return py.current != NULL && mine != NULL && py.current() == mine;
}

/* Record the exception that the calling thread handles, unless it is the last recorded one. A handler of
 * a signal may call MPI_Abort, so only calls from mpi4py are considered. */
void python_exception_abort(const void *address)
{
    if (api.system_exit != NULL && python_site_is_mpi4py(address) && python_site_is_initialised() &&
        holds_gil())
        handled_write(last_written, "abort");
}

/* A hook cannot be removed, so there is one for all sessions. */
void python_exception_start(void)
{
    static bool hooked;

    if (hooked || !python_site_is_initialised() || !api_find() ||
        !(holds_gil() || python_site_can_take_gil())) {
        if (!hooked)
            api.system_exit = NULL;
        return;
    }
    const int lock = py.PyGILState_Ensure();

    hooked = true;
    if (py.PyErr_Occurred() == NULL) {
        if (api.PySys_AddAuditHook(event_audit, NULL) != 0)
            py.PyErr_Clear();
        threads_wrap();
        tests_wrap();
    }
    py.PyGILState_Release(lock);
}
