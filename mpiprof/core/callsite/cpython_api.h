/* Python's C API as loaded in the process (cpython_api.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Only for --where; NULL if this Python lacks the function. */
#define PYTHON_MORE(X)                                                                             \
    X(object *, PyThreadState_GetFrame, (object *))                                                \
    X(int, PyGILState_Check, (void))                                                               \
    X(object *, PyEval_SaveThread, (void))                                                         \
    X(void, PyEval_RestoreThread, (object *))                                                      \
    X(object *, PyImport_ImportModule, (const char *))                                             \
    X(object *, PyCFunction_NewEx, (void *, object *, object *))                                   \
    X(object *, PyObject_CallMethod, (object *, const char *, const char *, ...))                  \
    X(object *, Py_BuildValue, (const char *, ...))

#define MEMBER(type, name, parameters) type(*name) parameters;
struct python {
    PYTHON_API(MEMBER)
    PYTHON_MORE(MEMBER)
    const void *runtime; /* _PyRuntime; NULL if missing */
    object *code_type, *text_type, *bytes_type;
    object *(*current)(void); /* PyThreadState_GetUnchecked since 3.13; NULL if missing */
    int (*finalising)(void);  /* Py_IsFinalizing since 3.13, _Py_IsFinalizing before */
};
#undef MEMBER
extern struct python py;

bool cpython_api_find(void);
