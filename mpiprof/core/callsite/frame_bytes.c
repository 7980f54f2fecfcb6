/* Numbers and addresses in call frame information, which may be damaged. Threads: any, while the
 * object stays loaded.
 */
#include "callsite/frame_info.h"

/* Encodings of a pointer: the lower half is its format, the upper half its base. */
enum { ULEB128 = 1, SLEB128 = 9, IS_SIGNED = 8, ABSENT = 0xff };
enum { RELATIVE_TO_ITSELF = 0x10, RELATIVE_TO_TABLE = 0x30, BASE = 0x70 };

uint64_t frame_bytes_leb128(struct reader *r, bool is_signed)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint64_t byte = read_number(r, 1);

        value |= (byte & 0x7f) << shift;
        if ((byte & 0x80) != 0)
            continue;
        if (is_signed && (byte & 0x40) != 0 && shift < 57)
            value |= ~(uint64_t)0 << (shift + 7);
        return value;
    }
    r->at = NULL;
    return 0;
}

/* Read an encoded address. table: address of .eh_frame_hdr. */
uint64_t frame_bytes_pointer(struct reader *r, unsigned encoding, uint64_t table)
{
    static const unsigned char sizes[] = {8, 0, 2, 4, 8, 0, 0, 0};
    const uint64_t here = (uint64_t)(uintptr_t)r->at;
    const unsigned format = encoding & ENCODING_FORMAT;
    const size_t size = sizes[format & ~(unsigned)IS_SIGNED];
    uint64_t value;

    if (encoding == ABSENT)
        return 0;
    if (format == ULEB128 || format == SLEB128) {
        value = frame_bytes_leb128(r, format == SLEB128);
    } else if (size > 0) {
        value = read_number(r, size);
        if ((format & IS_SIGNED) != 0 && size < 8 && (value >> (8 * size - 1) & 1) != 0)
            value |= ~(uint64_t)0 << (8 * size);
    } else {
        r->at = NULL;
        return 0;
    }
    return value + ((encoding & BASE) == RELATIVE_TO_ITSELF  ? here
                    : (encoding & BASE) == RELATIVE_TO_TABLE ? table
                                                             : 0);
}

/* Return the bytes from an address to the end of its segment, none outside of the object. */
struct reader frame_bytes_of(const struct dl_phdr_info *object, uint64_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *const segment = &object->dlpi_phdr[i];
        const uint64_t offset = address - object->dlpi_addr - segment->p_vaddr;

        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) != 0 &&
            offset < segment->p_memsz) {
            const unsigned char *const at = (const unsigned char *)(uintptr_t)address;

            return (struct reader){at, at + (segment->p_memsz - offset)};
        }
    }
    return (struct reader){NULL, NULL};
}
