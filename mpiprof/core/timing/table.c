/* Reading a machine table, as machine.c or a user has written it. */
#include "timing/timing.h"

#include <string.h>

#include "base/base.h"

/* Returns the number at a name within [s, end) of JSON, whatever its white space; 0 if there is
 * none. */
static double number_at(const char *s, const char *end, const char *name)
{
    double found = 0;

    s = strstr(s, name);
    if (s != NULL && s < end)
        text_scan(s + strlen(name), " : %lf", &found);
    return found;
}

/* Returns the slowest link of a table in JSON: that between nodes, else that within one. Others may
 * have written the table anew (jq), with other white space and another order. */
struct link table_slowest_link(const char *table)
{
    static const char *const links[] = {"\"between\"", "\"within\""};

    for (size_t i = 0; table != NULL && i < 2; i++) {
        const char *s = strstr(table, links[i]);

        if (s == NULL)
            continue;
        s += strlen(links[i]);
        s += strspn(s, " \t\r\n:");
        const char *const end = *s == '{' ? strchr(s, '}') : NULL;

        if (end != NULL)
            return (struct link){
                number_at(s, end, "\"alpha_ns\""), number_at(s, end, "\"beta_ns_per_byte\""),
                number_at(s, end, "\"pace_ns_per_byte\""), number_at(s, end, "\"buffer_bytes\"")};
    }
    return (struct link){0};
}
