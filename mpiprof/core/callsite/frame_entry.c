/* Entry of a function in the call frame information of an object.
 *
 * .eh_frame_hdr has a table of all functions, sorted by address. A function's entry (FDE) in
 * .eh_frame refers to a common entry (CIE). Threads: any, while the object stays loaded.
 */
#include "callsite/frame_info.h"

enum { SEARCH_TABLE = 0x3b }; /* 4 bytes relative to the table: the encoding that linkers use */

struct table_row {
    int32_t function, entry; /* relative to .eh_frame_hdr */
};

static uint64_t table_address(const struct dl_phdr_info *object)
{
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            return object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
    return 0;
}

/* Return the address of the entry of the last function that begins at or before an instruction. */
static uint64_t table_search(const struct dl_phdr_info *object, uint64_t table,
                             uint64_t instruction)
{
    struct reader r = frame_bytes_of(object, table);
    const uint64_t version = read_number(&r, 1);
    const unsigned frames_encoding = (unsigned)read_number(&r, 1);
    const unsigned count_encoding = (unsigned)read_number(&r, 1);
    const uint64_t row_encoding = read_number(&r, 1);

    frame_bytes_pointer(&r, frames_encoding, table);
    uint64_t count = frame_bytes_pointer(&r, count_encoding, table), first = 0;
    struct table_row row = {0};

    if (r.at == NULL || version != 1 || row_encoding != SEARCH_TABLE ||
        count > (uint64_t)(r.end - r.at) / sizeof row)
        return 0;
    while (count > 0) { /* rows before `first` begin at or before the instruction */
        const uint64_t half = count / 2;

        memcpy(&row, r.at + (first + half) * sizeof row, sizeof row);
        if (table + (uint64_t)row.function > instruction) {
            count = half;
        } else {
            first += half + 1;
            count -= half + 1;
        }
    }
    if (first == 0)
        return 0;
    memcpy(&row, r.at + (first - 1) * sizeof row, sizeof row);
    return table + (uint64_t)row.entry;
}

/* Read an entry's length, and return its bytes after that; none if the length is too long. */
static struct reader entry_bytes(const struct dl_phdr_info *object, uint64_t address)
{
    struct reader r = frame_bytes_of(object, address);
    const uint64_t length = read_number(&r, 4);
    const struct reader next = reader_skip(r, length);

    return (struct reader){next.at != NULL && length > 0 ? r.at : NULL, next.at};
}

/* Read the common entry. Returns false if it has an unknown form. */
static bool common_read(struct frame_entry *entry, struct reader r)
{
    const uint64_t marker = read_number(&r, 4), version = read_number(&r, 1);
    const char *const forms = (const char *)r.at;
    const size_t length = forms != NULL ? strnlen(forms, (size_t)(r.end - r.at)) : 0;

    r = reader_skip(r, length + 1);
    entry->code_unit = frame_bytes_leb128(&r, false);
    entry->data_unit = frame_bytes_leb128(&r, true);
    entry->return_register = version == 1 ? read_number(&r, 1) : frame_bytes_leb128(&r, false);
    if (r.at == NULL || marker != 0 || (version != 1 && version != 3) || forms[0] != 'z')
        return false;
    const uint64_t bytes = frame_bytes_leb128(&r, false);

    entry->common_rules = reader_skip(r, bytes);
    for (const char *form = forms + 1; *form != '\0'; form++) {
        if (*form == 'R')
            entry->encoding = (unsigned)read_number(&r, 1);
        else if (*form == 'L')
            read_number(&r, 1);
        else if (*form == 'S')
            entry->is_signal = true;
        else if (*form == 'P')
            frame_bytes_pointer(&r, (unsigned)read_number(&r, 1), entry->table);
        else
            return false;
    }
    return r.at != NULL && entry->common_rules.at != NULL;
}

/* Find the entry of the function that contains an instruction. Returns false without an entry. */
bool frame_entry_find(struct frame_entry *entry, const struct dl_phdr_info *object,
                      uint64_t instruction)
{
    *entry = (struct frame_entry){.table = table_address(object)};
    const uint64_t address =
        entry->table != 0 ? table_search(object, entry->table, instruction) : 0;
    struct reader r = entry_bytes(object, address);
    const uint64_t here = (uint64_t)(uintptr_t)r.at;
    const uint64_t common = here - read_number(&r, 4);

    if (address == 0 || r.at == NULL || !common_read(entry, entry_bytes(object, common)))
        return false;
    entry->begin = frame_bytes_pointer(&r, entry->encoding, entry->table);
    const uint64_t size = frame_bytes_pointer(&r, entry->encoding & ENCODING_FORMAT, 0);
    const uint64_t bytes = frame_bytes_leb128(&r, false);

    entry->rules = reader_skip(r, bytes);
    return entry->rules.at != NULL && instruction - entry->begin < size;
}
