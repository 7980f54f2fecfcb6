/* What python.c, python_layout.c and python_frame.c know of each other. */
#pragma once
#include "recorder.h"

typedef void object;

/* No Python headers: the C API is found by dlsym in a process that has it. */
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

#define MEMBER(type, name, parameters) type(*name) parameters;
struct python {
    PYTHON_API(MEMBER)
    object *code_type, *text_type, *bytes_type;
    object *(*current)(void); /* PyThreadState_GetUnchecked since 3.13; NULL: there is none */
    int (*finalising)(void);  /* Py_IsFinalizing since 3.13, _Py_IsFinalizing before */
};
#undef MEMBER
extern struct python py;

/* What a frame says of where it is. All of it is alive while the frame's thread is in the call. */
struct place {
    const object *code, *file, *name; /* file and name: str, NULL: none */
    int at, line;                     /* its instruction in bytes; line -1: not looked up yet */
    uint64_t key, file_key;           /* by contents, never by address */
};

/* ---- python_layout.c: where things stand in a Python's structures, in bytes */

struct layout {
    int minor;                          /* 3.minor */
    int thread_frame, nested;           /* nested -1: it is the frame itself */
    int code, back, instruction, owner; /* of a frame; owner -1: none */
    int first_line, file, name, lines;  /* of a code object */
    int traceable, start;               /* start -1: instructions are counted */
    int text_ascii, text_other;         /* where a string's characters are */
};
const struct layout *layout_for(const char *version);
enum { OBJECT_TYPE = 8, OBJECT_SIZE = 16, TEXT_STATE = 32, BYTES_DATA = 32 };

/* ---- python_frame.c */

bool frames_readable(object *thread);
object *frames_first(object *thread);
bool frames_next(object **frame, struct place *p);
