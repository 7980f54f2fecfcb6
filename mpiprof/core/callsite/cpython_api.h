/* Python's C API and structures, as loaded in the process. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Python's C API as loaded in the process (cpython_api.c) */

typedef void object;

/* Functions are looked up with dlsym, so no Python headers are required. */
#define PYTHON_API(X)                                                                              \
    X(const char *, Py_GetVersion, (void))                                                         \
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
    X(int, PyCode_Addr2Line, (const object *, int))                                                \
    X(object *, PyObject_GetAttrString, (object *, const char *))                                  \
    X(ptrdiff_t, PyObject_Hash, (object *))                                                        \
    X(ptrdiff_t, PyUnicode_GetLength, (const object *))                                            \
    X(uint32_t, PyUnicode_ReadChar, (const object *, ptrdiff_t))                                   \
    X(object *, PyErr_Occurred, (void))                                                            \
    X(void, PyErr_Clear, (void))                                                                   \
    X(int, PyRun_SimpleString, (const char *))                                                     \
    X(void, Py_DecRef, (object *))

/* Only for functions that Python calls (python_hook.c) and for --where. */
#define PYTHON_MORE(X)                                                                             \
    X(object *, PyThreadState_GetFrame, (object *))                                                \
    X(int, PyGILState_Check, (void))                                                               \
    X(object *, PyEval_SaveThread, (void))                                                         \
    X(void, PyEval_RestoreThread, (object *))                                                      \
    X(object *, PyImport_ImportModule, (const char *))                                             \
    X(object *, PyCFunction_NewEx, (void *, object *, object *))                                   \
    X(object *, PyObject_CallMethod, (object *, const char *, const char *, ...))                  \
    X(object *, PyTuple_GetItem, (object *, ptrdiff_t))                                            \
    X(object *, Py_BuildValue, (const char *, ...))

#define MEMBER(type, name, parameters) type(*name) parameters;
struct python {
    PYTHON_API(MEMBER)
    PYTHON_MORE(MEMBER)
    bool can_sample;     /* this Python has the functions for --where */
    const void *runtime; /* _PyRuntime; NULL if missing */
    object *code_type, *text_type, *bytes_type;
    object *(*current)(void); /* PyThreadState_GetUnchecked since 3.13; NULL if missing */
    int (*finalising)(void);  /* Py_IsFinalizing since 3.13, _Py_IsFinalizing before */
};
#undef MEMBER
extern struct python py;

bool cpython_api_find(void);
const object *cpython_api_attribute(object *code, const char *name);
object *cpython_api_step(object **frame);

/* ---- offsets in Python's structures (cpython_api.c) */

struct layout {                         /* in bytes */
    int minor;                          /* 3.minor */
    int thread_frame, nested;           /* nested is -1 if it is the frame itself */
    int code, back, instruction, owner; /* of a frame; owner -1 if missing */
    int first_line, file, name, lines;  /* of a code object */
    int traceable, start;               /* start is -1 if instructions are counted */
    int text_ascii, text_other;         /* offsets of a string's characters */
};
bool cpython_api_layout(const char *version, const void *runtime, struct layout *l);
enum { OBJECT_TYPE = 8, OBJECT_SIZE = 16, TEXT_STATE = 32, BYTES_DATA = 32 };

/* ---- frames of the calling Python thread (python_frame.c) */

/* Location of a frame. All pointers are valid while the frame's thread is in the call. */
struct frame_place {
    const object *code, *file, *name, *lines; /* file and name: str, or NULL */
    int at;                                   /* byte offset of the instruction */
    int line, first_line;                     /* line -1 if not looked up yet */
    uint64_t key, file_key;                   /* hashes of contents, never of addresses */
};

void python_frame_start(void);
bool python_frame_readable(object *thread);
object *python_frame_first(object *thread);
bool python_frame_next(object **frame, struct frame_place *p);
