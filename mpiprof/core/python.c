/* Call sites of Python programs: file, line and function of the innermost frame of the user's own.
 *
 * No Python headers: the C API is found by dlsym in a process that has it. The frame is read under
 * the GIL. Taking it beside other Python threads costs up to milliseconds and can deadlock, so it
 * is asked for only when this thread's is the one thread state and Python is neither starting
 * nor finalising (mpi4py finalises MPI at exit), unless --python-sites always.
 * A site is a code object and an instruction; the code objects seen are kept alive, so that an
 * address never comes to mean another.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "recorder.h"

typedef void object;

#define PYTHON_API(X)                                                                              \
    X(int, Py_IsInitialized, (void))                                                               \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int))                                                             \
    X(object *, PyGILState_GetThisThreadState, (void))                                             \
    X(object *, PyInterpreterState_Main, (void))                                                   \
    X(object *, PyInterpreterState_ThreadHead, (object *))                                         \
    X(object *, PyThreadState_Next, (object *))                                                    \
    X(object *, PyEval_GetFrame, (void))                                                           \
    X(object *, PyFrame_GetBack, (object *))                                                       \
    X(object *, PyFrame_GetCode, (object *))                                                       \
    X(int, PyFrame_GetLineNumber, (object *))                                                      \
    X(object *, PyObject_GetAttrString, (object *, const char *))                                  \
    X(const char *, PyUnicode_AsUTF8AndSize, (object *, ptrdiff_t *))                              \
    X(object *, PyErr_Occurred, (void))                                                            \
    X(void, PyErr_Clear, (void))                                                                   \
    X(int, PyRun_SimpleString, (const char *))                                                     \
    X(void, Py_IncRef, (object *))                                                                 \
    X(void, Py_DecRef, (object *))

#define MEMBER(type, name, parameters) type(*name) parameters;
static struct {
    PYTHON_API(MEMBER)
    int (*lasti)(object *);  /* since 3.11; before, the line number stands in */
    int (*finalising)(void); /* Py_IsFinalizing since 3.13, _Py_IsFinalizing before */
} py;
#undef MEMBER

enum { MOST_FRAMES = 32 };

static bool loaded;
static struct map python_sites, code_kinds;
static char folder_at_start[PATH_BYTES];
static struct site skipped = {.skip = true}, kept;

static bool may_ask(void)
{
    if (!loaded || recorder.options.python == PYTHON_NEVER || !py.Py_IsInitialized() ||
        (py.finalising != NULL && py.finalising()))
        return false;
    if (recorder.options.python == PYTHON_ALWAYS)
        return true;
    object *const mine = py.PyGILState_GetThisThreadState();

    return mine != NULL && py.PyInterpreterState_ThreadHead(py.PyInterpreterState_Main()) == mine &&
           py.PyThreadState_Next(mine) == NULL;
}

/* An attribute of a code object, as UTF-8 in a new reference to hold it. */
static const char *attribute(object *code, const char *name, object **holder, ptrdiff_t *length)
{
    *holder = py.PyObject_GetAttrString(code, name);
    const char *const text = *holder != NULL ? py.PyUnicode_AsUTF8AndSize(*holder, length) : NULL;

    if (text == NULL) {
        py.PyErr_Clear();
        *length = 1;
        return "?";
    }
    return text;
}

static bool names_package(const char *file, const char *package, size_t length)
{
    char part[256];

    if (length == 0 || length > 200)
        return false;
    snprintf(part, sizeof part, "/%.*s/", (int)length, package);
    if (strstr(file, part) != NULL)
        return true;
    snprintf(part, sizeof part, "/%.*s.py", (int)length, package);
    const char *const end = strstr(file, part);

    return end != NULL && end[strlen(part)] == '\0';
}

static bool file_skipped(const char *file)
{
    const char *list = recorder.options.skip_packages;

    if (names_package(file, "mpi4py", 6))
        return true;
    while (list != NULL && *list != '\0') {
        const size_t length = strcspn(list, ":");

        if (names_package(file, list, length))
            return true;
        list += length + (list[length] == ':');
    }
    return false;
}

/* Whether frames of a code object are passed over; keeps it alive from then on. */
static bool code_skipped(object *code)
{
    const uint64_t key = (uint64_t)(uintptr_t)code;
    struct site *kind = map_get(&code_kinds, key);

    if (kind == NULL) {
        object *holder;
        ptrdiff_t length;

        kind = file_skipped(attribute(code, "co_filename", &holder, &length)) ? &skipped : &kept;
        if (holder != NULL)
            py.Py_DecRef(holder);
        recorder_lock();
        if (map_put(&code_kinds, key, kind))
            py.Py_IncRef(code);
        recorder_unlock();
    }
    return kind->skip;
}

static void frame_add(struct text *t, object *frame, object *code)
{
    object *file_holder, *name_holder;
    ptrdiff_t file_length, name_length;
    const char *const file = attribute(code, "co_filename", &file_holder, &file_length);
    const char *const name = attribute(code, "co_name", &name_holder, &name_length);
    char path[2 * PATH_BYTES];

    text_add(t, t->length > 0 ? ", {\"file\": " : "{\"file\": ");
    if (file[0] != '/' && file[0] != '<' && folder_at_start[0] != '\0') {
        snprintf(path, sizeof path, "%s/%s", folder_at_start, file);
        text_json(t, path, -1);
    } else {
        text_json(t, file, file_length);
    }
    text_add(t, ", \"line\": %d, \"function\": ", py.PyFrame_GetLineNumber(frame));
    text_json(t, name, name_length);
    text_add(t, "}");
    if (file_holder != NULL)
        py.Py_DecRef(file_holder);
    if (name_holder != NULL)
        py.Py_DecRef(name_holder);
}

static struct site *site_of(uint64_t key, int count, object **frames, object **codes)
{
    struct site *s = map_get(&python_sites, key);

    if (s == NULL) {
        struct text t = {0};

        for (int i = 0; i < count; i++)
            frame_add(&t, frames[i], codes[i]);
        s = site_new(&python_sites, key, &t);
        text_free(&t);
    }
    return s;
}

/* Under the GIL: the frames that are the user's, innermost first; all of them if none is. */
static struct site *site_of_frames(object *frame)
{
    object *frames[MOST_FRAMES], *codes[MOST_FRAMES], *first = frame;
    const int most = recorder.options.stack < MOST_FRAMES ? recorder.options.stack : MOST_FRAMES;
    uint64_t key = 0;
    int count = 0;

    if (frame == NULL)
        return NULL;
    py.Py_IncRef(first);
    py.Py_IncRef(frame);
    while (frame != NULL && count < most) {
        object *const code = py.PyFrame_GetCode(frame);
        object *const back = code_skipped(code) ? py.PyFrame_GetBack(frame) : NULL;

        if (back != NULL || map_get(&code_kinds, (uint64_t)(uintptr_t)code) == &skipped) {
            py.Py_DecRef(code);
            py.Py_DecRef(frame);
            frame = back;
            continue;
        }
        frames[count] = frame;
        codes[count++] = code;
        const int at = py.lasti != NULL ? py.lasti(frame) : py.PyFrame_GetLineNumber(frame);

        key = hash_mix(key ^ (uint64_t)(uintptr_t)code, (uint64_t)at);
        frame = count < most ? py.PyFrame_GetBack(frame) : NULL;
    }
    if (count == 0) { /* a program that is itself one of the packages */
        frames[0] = first;
        codes[0] = py.PyFrame_GetCode(first);
        py.Py_IncRef(first);
        key = hash_mix((uint64_t)(uintptr_t)codes[0], (uint64_t)py.PyFrame_GetLineNumber(first));
        count = 1;
    }
    struct site *const s = site_of(key, count, frames, codes);

    for (int i = 0; i < count; i++) {
        py.Py_DecRef(codes[i]);
        py.Py_DecRef(frames[i]);
    }
    py.Py_DecRef(first);
    return s;
}

struct site *python_site(void)
{
    if (!may_ask())
        return NULL;
    const int gil = py.PyGILState_Ensure();
    struct site *const s =
        py.PyErr_Occurred() == NULL ? site_of_frames(py.PyEval_GetFrame()) : NULL;

    py.PyGILState_Release(gil);
    return s;
}

/* Python copied the environment when it started: take the library out of os.environ too. */
void python_forget_preload(const char *value)
{
    struct text t = {0};

    if (!may_ask())
        return;
    if (value == NULL) {
        text_add(&t, "__import__('os').environ.pop('LD_PRELOAD', None)");
    } else {
        text_add(&t, "__import__('os').environ['LD_PRELOAD'] = ");
        text_json(&t, value, -1);
    }
    const int gil = py.PyGILState_Ensure();

    if (t.bytes != NULL && py.PyErr_Occurred() == NULL)
        py.PyRun_SimpleString(t.bytes);
    py.PyGILState_Release(gil);
    text_free(&t);
}

void python_start(void)
{
    loaded = true;
#define FIND(type, name, parameters)                                                               \
    *(void **)&py.name = dlsym(RTLD_DEFAULT, #name);                                               \
    loaded &= py.name != NULL;
    PYTHON_API(FIND)
#undef FIND
    *(void **)&py.lasti = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
    *(void **)&py.finalising = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    if (py.finalising == NULL)
        *(void **)&py.finalising = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    if (getcwd(folder_at_start, sizeof folder_at_start) == NULL)
        folder_at_start[0] = '\0';
}
