/* Variants of algorithms: what people and traces call them. */
#include "run/variant.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/recorder.h"

/* Labels are compared by their address, and live as long as the process. */
const char *variant_label(const char *text)
{
    static struct map labels; /* under recorder.lock */
    const uint64_t h = hash_text(3, text, -1);
    const char *found = map_get(&labels, h);

    if (found != NULL)
        return found;
    recorder_lock();
    found = map_get(&labels, h);
    if (found == NULL && (found = memory_text(text)) != NULL)
        map_put(&labels, h, (void *)(uintptr_t)found);
    recorder_unlock();
    return found != NULL ? found : "?";
}
