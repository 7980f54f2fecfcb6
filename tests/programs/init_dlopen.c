/* A program that loads the MPI library itself, and looks its functions up in the library's handle. */
#include <dlfcn.h>
#include <stdio.h>

typedef void function(void);

static function *find(void *library, const char *name)
{
    union {
        void *object;
        function *function;
    } found = {.object = dlsym(library, name)};

    return found.function;
}

int main(int argc, char **argv)
{
    void *const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*init)(int *, char ***), (*finalize)(void);

    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 4;
    }
    init = (int (*)(int *, char ***))find(library, "MPI_Init");
    finalize = (int (*)(void))find(library, "MPI_Finalize");
    init(&argc, &argv);
    puts("running");
    return finalize();
}
