/* Call sites of Python programs: file, line and function of the innermost frame of user code.
 *
 * Frames are read from memory (python_frame.c), whatever other Python threads do. If this Python's
 * frame layout is untested, the C API is called with the GIL. Acquiring the GIL beside other Python
 * threads costs up to milliseconds and can deadlock. So it is acquired only if this thread's is the
 * only thread state and Python is neither starting nor finalising (mpi4py finalises MPI at exit),
 * or with --python-sites always.
 *
 * A site is identified by the contents of its frames, never by their addresses. So code that is
 * created, run and discarded repeatedly is one site, and no reference is taken.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/recorder.h"
#include "callsite/callsite.h"

enum { LONGEST_NAME = 4096 };

bool python_site_is_possible;
static struct map python_sites, file_kinds;
static char skipped, shown; /* values of file_kinds */

bool python_site_is_initialised(void)
{
    return python_site_is_possible && recorder.options.python != PYTHON_NEVER &&
           py.Py_IsInitialized() && (py.finalising == NULL || !py.finalising());
}

/* Return true if taking the GIL neither waits nor deadlocks. */
bool python_site_can_take_gil(void)
{
    if (recorder.options.python == PYTHON_ALWAYS)
        return true;
    object *const mine = py.PyGILState_GetThisThreadState();

    return mine != NULL && py.PyInterpreterState_ThreadHead(py.PyInterpreterState_Main()) == mine &&
           py.PyThreadState_Next(mine) == NULL;
}

/* ---- names */

/* Add a str as UTF-8, cut to a number of bytes. Surrogates, as in file names of unknown encodings,
 * become question marks, and so does an unknown or empty str. */
void python_site_add_text(struct text *t, const object *text, size_t most)
{
    const ptrdiff_t length = text != NULL ? py.PyUnicode_GetLength(text) : 0;
    const size_t before = t->length;

    for (ptrdiff_t i = 0; i < length && t->length - before < most; i++) {
        static const uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
        const uint32_t read = py.PyUnicode_ReadChar(text, i);
        const uint32_t c = read >= 0xd800 && read < 0xe000 ? '?' : read;
        int more = (c >= 0x80) + (c >= 0x800) + (c >= 0x10000); /* bytes after the first */
        char utf8[4] = {(char)(lead[more] | c >> 6 * more)};
        size_t used = 1;

        while (more-- > 0)
            utf8[used++] = (char)(0x80 | (c >> 6 * more & 0x3f));
        text_bytes(t, utf8, used);
    }
    if (t->length == before)
        text_add(t, "?");
}

/* Return true if the path prefix, which ends with a package's name, is that package, and not only a
 * folder of the same name, such as a source folder. */
static bool is_package(const char *path, size_t length)
{
    static const char installed[] = "-packages"; /* site-packages, dist-packages */
    const char *slash = memrchr(path, '/', length);
    struct text inside = {0};

    if (slash != NULL && slash - path >= (ptrdiff_t)sizeof installed &&
        strncmp(slash - (sizeof installed - 1), installed, sizeof installed - 1) == 0)
        return true;
    text_add(&inside, "%.*s/__init__.py", (int)length, path);
    const bool exists = inside.bytes != NULL && access(inside.bytes, F_OK) == 0;

    text_free(&inside);
    return exists;
}

static bool names_package(const char *file, const char *package, size_t length)
{
    char part[256];

    if (length == 0 || length > 200)
        return false;
    snprintf(part, sizeof part, "/%.*s/", (int)length, package);
    for (const char *s = file; (s = strstr(s, part)) != NULL; s++)
        if (is_package(file, (size_t)(s - file) + length + 1))
            return true;
    snprintf(part, sizeof part, "/%.*s.py", (int)length, package);
    const char *const end = strstr(file, part);

    return end != NULL && end[strlen(part)] == '\0';
}

/* Return true for files of mpi4py, runpy and the packages of --skip-package. */
bool python_site_is_skipped_file(const char *file)
{
    const char *list = recorder.options.skip_packages;

    if (names_package(file, "mpi4py", 6))
        return true;
    /* It runs `python -m MODULE`, so the innermost skipped frame is that of the module. */
    if (strcmp(file, "<frozen runpy>") == 0 || names_package(file, "runpy", 5))
        return true;
    while (list != NULL && *list != '\0') {
        const size_t length = strcspn(list, ":");

        if (names_package(file, list, length))
            return true;
        list += length + (list[length] == ':');
    }
    return false;
}

/* Return true if frames of the file are skipped. */
static bool place_skipped(const struct frame_place *p)
{
    void *kind = map_get(&file_kinds, p->file_key);

    if (kind == NULL) {
        struct text file = {0};

        python_site_add_text(&file, p->file, LONGEST_NAME);
        kind = file.bytes != NULL && python_site_is_skipped_file(file.bytes) ? &skipped : &shown;
        text_free(&file);
        recorder_lock();
        map_put(&file_kinds, p->file_key, kind);
        recorder_unlock();
    }
    return kind == &skipped;
}

/* Append a location as JSON. Its code is needed only if its line is not looked up yet. */
void python_site_add_location(struct text *t, const struct frame_place *p)
{
    struct text path = {0}, name = {0};
    const int line = p->line >= 0 ? p->line : py.PyCode_Addr2Line(p->code, p->at);
    const bool named = p->file != NULL && py.PyUnicode_GetLength(p->file) > 0;
    const uint32_t first = named ? py.PyUnicode_ReadChar(p->file, 0) : 0;

    if (first != '/' && first != '<' && site_folder[0] != '\0')
        text_add(&path, "%s/", site_folder);
    python_site_add_text(&path, p->file, LONGEST_NAME);
    python_site_add_text(&name, p->name, LONGEST_NAME);
    text_add(t, t->length > 0 ? ", {\"file\": " : "{\"file\": ");
    text_json(t, path.bytes != NULL ? path.bytes : "?", -1);
    text_add(t, ", \"line\": %d, \"function\": ", line > 0 ? line : 0);
    text_json(t, name.bytes != NULL ? name.bytes : "?", -1);
    text_add(t, "}");
    text_free(&path);
    text_free(&name);
}

/* ---- sites */

/* Return the next outer frame in p. Returns false if there is none. */
typedef bool next_place(object **frame, struct frame_place *p);

/* Return the site of up to `most` of the user's frames, innermost first. If there are none, as in a
 * program that is itself a skipped package, the innermost frame is used. spare: number of sites
 * that may still be made, after which NULL is returned; NULL for any number.
 *
 * The frames of a new site are read a second time for their names: the thread's stack may be too
 * small for a list of them, and the thread does not leave its frames meanwhile. */
static struct site *site_of_frames(next_place *next, object *innermost, int most, int *spare)
{
    object *frame = innermost;
    struct frame_place p;
    uint64_t key = 0, first_key = 0;
    int count = 0, skipped_count = 0;

    while (count < most && count < MOST_FRAMES && next(&frame, &p)) {
        if (count + skipped_count == 0)
            first_key = p.key;
        if (place_skipped(&p)) {
            skipped_count++;
            continue;
        }
        key = hash_mix(key, p.key);
        count++;
    }
    if (count + skipped_count == 0)
        return NULL;
    struct site *const known = map_get(&python_sites, count > 0 ? key : first_key);

    if (known != NULL)
        return known;
    if (spare != NULL && (*spare)-- <= 0)
        return NULL;
    struct text t = {0};

    frame = innermost;
    for (int i = 0; i < (count > 0 ? count : 1) && next(&frame, &p);)
        if (count == 0 || !place_skipped(&p)) {
            python_site_add_location(&t, &p);
            i++;
        }
    if (count == 0)
        key = first_key;
    struct site *const s = site_new(&python_sites, key, &t);

    text_free(&t);
    return s;
}

/* The C API's equivalent of python_frame_next. */
static bool api_next(object **frame, struct frame_place *p)
{
    if (*frame == NULL)
        return false;
    *p = (struct frame_place){.line = py.PyFrame_GetLineNumber(*frame)};
    object *const code = cpython_api_step(frame);

    p->code = code;
    p->file = cpython_api_attribute(code, "co_filename");
    p->name = cpython_api_attribute(code, "co_name");
    p->file_key = p->file != NULL ? (uint64_t)py.PyObject_Hash((object *)p->file) : 1;
    p->key = p->name != NULL ? (uint64_t)py.PyObject_Hash((object *)p->name) : 1;
    p->key = hash_mix(hash_mix(p->file_key, p->key), (uint64_t)p->line);
    return true;
}

/* Return the current site of the calling thread, or NULL if no Python frame is readable now. */
struct site *python_site_read(void)
{
    if (!python_site_is_initialised())
        return NULL;
    object *const thread = py.PyGILState_GetThisThreadState();

    if (thread == NULL)
        return NULL;
    if (python_frame_readable(thread))
        return site_of_frames(python_frame_next, python_frame_first(thread), recorder.options.stack,
                              NULL);
    if (!python_site_can_take_gil())
        return NULL;
    const int lock = py.PyGILState_Ensure();
    struct site *const s =
        py.PyErr_Occurred() == NULL
            ? site_of_frames(api_next, py.PyEval_GetFrame(), recorder.options.stack, NULL)
            : NULL;

    py.PyGILState_Release(lock);
    return s;
}

/* Return true if the address is in mpi4py's module. */
bool python_site_is_mpi4py(const void *address)
{
    Dl_info caller = {0};

    return python_site_is_possible && dladdr((const char *)address - 1, &caller) != 0 &&
           caller.dli_fname != NULL && strstr(caller.dli_fname, "/mpi4py/MPI.") != NULL;
}

bool python_site_is_exit_address(const void *address)
{
    Dl_info caller = {0}, python = {0};

    if (!python_site_is_possible || recorder.options.python == PYTHON_NEVER ||
        python_site_is_initialised() || dladdr((const char *)address - 1, &caller) == 0)
        return false;
    if (python_site_is_mpi4py(address))
        return true;
    return dladdr(*(void **)&py.Py_IsInitialized, &python) != 0 &&
           python.dli_fbase == caller.dli_fbase;
}

/* Return the stack of another thread as a site, or NULL if there are too many. */
struct site *python_site_of(object *thread)
{
    static int spare = MOST_SAMPLED;
    object *const frame = py.PyThreadState_GetFrame(thread);
    struct site *const s =
        frame != NULL ? site_of_frames(api_next, frame, MOST_FRAMES, &spare) : NULL;

    if (frame != NULL)
        py.Py_DecRef(frame);
    return s;
}

/* Update LD_PRELOAD in os.environ, because Python copied the environment when it started. */
void python_site_clear_preload(const char *value)
{
    struct text t = {0};

    if (!python_site_is_initialised() || !python_site_can_take_gil())
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

void python_site_start(void)
{
    const bool found = cpython_api_find();

    if (found)
        python_frame_start();
    python_site_is_possible = found;
    object *const thread = python_site_is_initialised() ? py.PyGILState_GetThisThreadState() : NULL;

    if (thread != NULL) /* MPI_Init is often called with the GIL, so the check can use the C API */
        python_frame_readable(thread);
}
