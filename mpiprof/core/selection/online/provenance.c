/* Provenance of a measurement: MPI library, node and date. */
#include "selection/online/provenance.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "tracefile/meta.h"

/* Add the provenance as JSON. The library's text begins "MPICH Version: 5.0.2" or "Open MPI
 * v5.0.11, package ..". */
void provenance_add(struct text *t)
{
    char name[200] = "", host[256] = "node", stamp[32];
    const char *s = meta_library();
    int words = strncmp(s, "Open", 4) == 0 ? 3 : 2;

    while (words-- > 0 && *s != '\0') {
        s += strspn(s, " ");
        if (strncmp(s, "Version:", 8) == 0)
            s += 8 + strspn(s + 8, " ");
        const size_t length = strcspn(s, " ,");

        if (strlen(name) + length + 2 < sizeof name)
            sprintf(name + strlen(name), "%s%.*s", name[0] != '\0' ? " " : "", (int)length, s);
        s += length;
    }
    gethostname(host, sizeof host - 1);
    meta_now(stamp, sizeof stamp);
    text_add(t, "\"measured\": {\"how\": \"auto\", \"mpi\": ");
    text_json(t, name, -1);
    text_add(t, ", \"hosts\": [");
    text_json(t, host, -1);
    text_add(t, "], \"date\": \"%.10s\"}", stamp);
}
