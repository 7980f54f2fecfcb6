/* Making the trace folder, with those above it. */
#include "trace/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/common.h"

bool folder_make(const char *path)
{
    char part[PATH_BYTES];

    /* Thousands of ranks come here: of a folder that is there, one question each. */
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    for (size_t i = 1; path[i] != '\0' && i < sizeof part; i++)
        if (path[i] == '/') {
            memcpy(part, path, i);
            part[i] = '\0';
            mkdir(part, 0777);
        }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* Makes the wanted folder, or BASE-date-time, made unique; its path is left in `path`. */
bool folder_make_unique(char *path, const char *wanted, const char *base)
{
    char stamp[32];
    const time_t now = time(NULL);
    struct tm local;

    if (wanted != NULL && wanted[0] != '\0') {
        snprintf(path, PATH_BYTES, "%s", wanted);
        return folder_make(path);
    }
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
    snprintf(path, PATH_BYTES, "%s-%s", base, stamp);
    if (mkdir(path, 0777) == 0)
        return true;
    for (int n = 2; errno == EEXIST && n < 1000; n++) {
        snprintf(path, PATH_BYTES, "%s-%s-%d", base, stamp, n);
        if (mkdir(path, 0777) == 0)
            return true;
    }
    return false;
}
