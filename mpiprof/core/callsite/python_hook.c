/* Functions of the recorder that Python calls: at its exit, and around garbage collections. */
#include "callsite/callsite.h"

/* Pass a function to a method of a module, or of an attribute of a module, as in
 * atexit.register(function). Returns false if this is impossible. The GIL is required, so it is
 * taken under the conditions of python_site_can_take_gil. */
bool python_hook_add(const char *module_name, const char *attribute, const char *method_name,
                     struct python_method *function)
{
    if (!python_site_is_initialised() || !python_site_can_take_gil() || !py.can_sample)
        return false;
    const int lock = py.PyGILState_Ensure();
    object *const module =
        py.PyErr_Occurred() == NULL ? py.PyImport_ImportModule(module_name) : NULL;
    object *const target =
        module == NULL || attribute == NULL ? NULL : py.PyObject_GetAttrString(module, attribute);
    object *const receiver = attribute == NULL ? module : target;
    object *const made = receiver != NULL ? py.PyCFunction_NewEx(function, NULL, NULL) : NULL;
    object *const done =
        made != NULL ? py.PyObject_CallMethod(receiver, method_name, "O", made) : NULL;
    object *const all[] = {module, target, made, done};

    if (done == NULL && module != NULL)
        py.PyErr_Clear();
    for (int i = 0; i < 4; i++)
        if (all[i] != NULL)
            py.Py_DecRef(all[i]);
    py.PyGILState_Release(lock);
    return done != NULL;
}

/* ---- exit of Python */

static void (*at_exit)(void);

static object *call_at_exit(object *module, object *arguments)
{
    (void)module;
    (void)arguments;
    at_exit();
    return py.Py_BuildValue("");
}

/* Call a function on Python's thread when Python begins to finalise. Returns false if this is
 * impossible. */
bool python_hook_at_exit(void (*stop)(void))
{
    enum { NO_ARGUMENTS = 4 };
    static struct python_method method = {"stop", call_at_exit, NO_ARGUMENTS, NULL};

    at_exit = stop;
    return python_hook_add("atexit", NULL, "register", &method);
}
