/* Source lines of instruction addresses, from the module's DWARF line table.
 *
 * This serves messages and plans that a process writes at its end, or when a communicator ends. The
 * reports use addr2line. A module is read once for all requested addresses. Supported are DWARF 2
 * to 5 in uncompressed little-endian 64-bit ELF files. Anything else, damaged or oversized data
 * leaves a line unknown. No length or offset in the file is trusted: each read is checked against
 * the loaded data.
 *
 * Threads: any; all state is the caller's.
 */

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "callsite/dwarf_line.h"

enum { MOST_SECTIONS = 10000, MOST_BYTES = 256 << 20, MOST_FORMS = 16 };

struct bytes {
    const uint8_t *at, *end;
};

/* ---- ELF file */

static bool load(int file, uint64_t from, uint64_t length, uint8_t **to)
{
    const off_t size = lseek(file, 0, SEEK_END);

    *to = NULL;
    if (size < 0 || length > MOST_BYTES || from > (uint64_t)size ||
        length > (uint64_t)size - from || (*to = malloc(length + 1)) == NULL)
        return false;
    for (uint64_t done = 0; done < length;) {
        const ssize_t got = pread(file, *to + done, length - done, (off_t)(from + done));

        if (got <= 0)
            return false;
        done += (uint64_t)got;
    }
    (*to)[length] = '\0';
    return true;
}

static bool head_read(int file, Elf64_Ehdr *head)
{
    return pread(file, head, sizeof *head, 0) == (ssize_t)sizeof *head &&
           memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_ident[EI_CLASS] == ELFCLASS64 &&
           head->e_ident[EI_DATA] == ELFDATA2LSB && head->e_shentsize == sizeof(Elf64_Shdr) &&
           head->e_shnum < MOST_SECTIONS && head->e_shstrndx < head->e_shnum &&
           head->e_phentsize == sizeof(Elf64_Phdr);
}

/* Return the link address of the first segment, which is 0 unless the program has a fixed
 * address. */
static uint64_t base_of(int file, const Elf64_Ehdr *head)
{
    uint64_t lowest = UINT64_MAX;
    Elf64_Phdr p;

    for (int i = 0; i < head->e_phnum; i++)
        if (pread(file, &p, sizeof p, (off_t)(head->e_phoff + (uint64_t)i * sizeof p)) ==
                (ssize_t)sizeof p &&
            p.p_type == PT_LOAD && p.p_vaddr < lowest)
            lowest = p.p_vaddr;
    return lowest == UINT64_MAX ? 0 : lowest & ~(uint64_t)0xfff;
}

/* Load a section by its name. The caller frees the memory. */
static uint8_t *section(int file, const Elf64_Ehdr *head, const char *name, struct bytes *found)
{
    uint8_t *headers = NULL, *names = NULL, *content = NULL;
    const uint64_t size = (uint64_t)head->e_shnum * sizeof(Elf64_Shdr);

    *found = (struct bytes){0};
    if (load(file, head->e_shoff, size, &headers)) {
        const Elf64_Shdr *const s = (const Elf64_Shdr *)(const void *)headers;
        const Elf64_Shdr *const strings = &s[head->e_shstrndx];

        if (load(file, strings->sh_offset, strings->sh_size, &names))
            for (int i = 0; content == NULL && i < head->e_shnum; i++)
                if (s[i].sh_name < strings->sh_size && s[i].sh_type == SHT_PROGBITS &&
                    (s[i].sh_flags & SHF_COMPRESSED) == 0 &&
                    strcmp((const char *)names + s[i].sh_name, name) == 0) {
                    if (!load(file, s[i].sh_offset, s[i].sh_size, &content))
                        break;
                    *found = (struct bytes){content, content + s[i].sh_size};
                }
    }
    free(headers);
    free(names);
    if (found->at == NULL) {
        free(content);
        content = NULL;
    }
    return content;
}

/* ---- reading; beyond the end the result is 0 and `at` stays at the end */

static uint64_t number(struct bytes *b, unsigned size)
{
    uint64_t value = 0;

    if ((size_t)(b->end - b->at) < size) {
        b->at = b->end;
        return 0;
    }
    memcpy(&value, b->at, size < sizeof value ? size : sizeof value);
    b->at += size;
    return value;
}

static uint64_t leb(struct bytes *b, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;

    while (b->at < b->end) {
        byte = *b->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if ((byte & 0x80) == 0)
            break;
    }
    if (is_signed && shift < 64 && (byte & 0x40))
        value |= ~(uint64_t)0 << shift;
    return value;
}

static const char *string(struct bytes *b)
{
    const char *const start = (const char *)b->at;
    const uint8_t *const end = memchr(b->at, '\0', (size_t)(b->end - b->at));

    b->at = end != NULL ? end + 1 : b->end;
    return end != NULL ? start : "";
}

/* ---- units */

enum { FORM_BLOCK = 0x09, FORM_STRING = 0x08, FORM_UDATA = 0x0f, FORM_STRP = 0x0e };
enum { FORM_DATA1 = 0x0b, FORM_DATA2 = 0x05, FORM_DATA4 = 0x06, FORM_DATA8 = 0x07 };
enum { FORM_DATA16 = 0x1e, FORM_LINE_STRP = 0x1f, NAME = 1 };

struct unit {
    struct bytes tables, program; /* directories and files; the line program */
    const uint8_t *lengths;       /* of standard operations */
    unsigned version, offset_bytes, step, range, first_special;
    int line_base;
};

static bool unit_read(struct bytes *all, struct unit *u)
{
    uint64_t length = number(all, 4);

    u->offset_bytes = 4;
    if (length == 0xffffffff) {
        u->offset_bytes = 8;
        length = number(all, 8);
    }
    if (length > (uint64_t)(all->end - all->at))
        length = (uint64_t)(all->end - all->at);
    struct bytes b = {all->at, all->at + length};

    all->at = b.end;
    u->version = (unsigned)number(&b, 2);
    if (u->version >= 5)
        number(&b, 2); /* sizes of an address and of a segment */
    const uint64_t head = number(&b, u->offset_bytes);

    if (u->version < 2 || u->version > 5 || head > (uint64_t)(b.end - b.at))
        return false;
    u->program = (struct bytes){b.at + head, b.end};
    b.end = u->program.at;
    u->step = (unsigned)number(&b, 1);
    if (u->version >= 4)
        number(&b, 1); /* operations per instruction */
    number(&b, 1);     /* initial value of is_stmt */
    u->line_base = (int8_t)number(&b, 1);
    u->range = (unsigned)number(&b, 1);
    u->first_special = (unsigned)number(&b, 1);
    u->lengths = b.at;
    number(&b, u->first_special > 0 ? u->first_special - 1 : 0);
    u->tables = b;
    return u->range > 0 && u->first_special > 0 && b.at < b.end;
}

static void form_skip(struct bytes *b, uint64_t form, unsigned offset_bytes)
{
    switch (form) {
    case FORM_STRING: string(b); break;
    case FORM_UDATA: leb(b, false); break;
    case FORM_BLOCK: number(b, (unsigned)leb(b, false)); break;
    case FORM_DATA1: number(b, 1); break;
    case FORM_DATA2: number(b, 2); break;
    case FORM_DATA4: number(b, 4); break;
    case FORM_DATA8: number(b, 8); break;
    case FORM_DATA16: number(b, 16); break;
    case FORM_STRP:
    case FORM_LINE_STRP: number(b, offset_bytes); break;
    default: b->at = b->end;
    }
}

/* Return the name of the requested entry in a DWARF 5 table, or NULL if it does not exist. */
static const char *entry_name(struct bytes *b, const struct unit *u, struct bytes strings,
                              uint64_t wanted)
{
    uint64_t forms[MOST_FORMS][2];
    const unsigned count = (unsigned)number(b, 1);
    const char *name = NULL;

    if (count > MOST_FORMS)
        return NULL;
    for (unsigned i = 0; i < count; i++) {
        forms[i][0] = leb(b, false);
        forms[i][1] = leb(b, false);
    }
    const uint64_t entries = leb(b, false);

    for (uint64_t e = 0; e < entries && b->at < b->end; e++)
        for (unsigned i = 0; i < count; i++) {
            if (e != wanted || forms[i][0] != NAME) {
                form_skip(b, forms[i][1], u->offset_bytes);
            } else if (forms[i][1] == FORM_LINE_STRP) {
                const uint64_t at = number(b, u->offset_bytes);

                if (at < (uint64_t)(strings.end - strings.at)) {
                    strings.at += at;
                    name = string(&strings);
                }
            } else if (forms[i][1] == FORM_STRING) {
                name = string(b);
            } else {
                form_skip(b, forms[i][1], u->offset_bytes);
            }
        }
    return name;
}

static const char *file_name(const struct unit *u, struct bytes strings, uint64_t wanted)
{
    struct bytes b = u->tables;

    if (u->version >= 5) {
        entry_name(&b, u, strings, UINT64_MAX); /* skip the directories */
        return entry_name(&b, u, strings, wanted);
    }
    while (b.at < b.end && *string(&b) != '\0')
        ;
    for (uint64_t i = 1; b.at < b.end; i++) {
        const char *const name = string(&b);

        if (*name == '\0')
            break;
        if (i == wanted)
            return name;
        for (int k = 0; k < 3; k++)
            leb(&b, false);
    }
    return NULL;
}

/* ---- line programs */

struct row {
    uint64_t address, file, line;
};

struct search {
    struct line_query *queries;
    int count;
    uint64_t base;
    struct bytes strings;
};

static void rows_meet(struct search *s, const struct unit *u, const struct row *from, uint64_t to)
{
    for (int i = 0; i < s->count; i++) {
        struct line_query *const w = &s->queries[i];
        const uint64_t address = s->base + w->offset;

        if (w->place != NULL || address < from->address || address >= to || from->line == 0)
            continue;
        const char *const path = file_name(u, s->strings, from->file);
        const char *const slash = path != NULL ? strrchr(path, '/') : NULL;

        if (path != NULL && *path != '\0' &&
            asprintf(&w->place, "%s:%llu", slash != NULL ? slash + 1 : path,
                     (unsigned long long)from->line) < 0)
            w->place = NULL;
    }
}

/* Run a unit's line program. A sequence that begins at 0 belongs to code that the linker
 * removed. */
static void unit_run(struct search *s, const struct unit *u)
{
    const struct row start = {0, 1, 1};
    struct row now = start, before = start;
    struct bytes b = u->program;
    bool open = false;

    while (b.at < b.end) {
        const unsigned op = (unsigned)number(&b, 1);
        bool emit = op >= u->first_special, ends = false;

        if (emit) {
            const unsigned special = op - u->first_special;

            now.address += (uint64_t)(special / u->range) * u->step;
            now.line += (uint64_t)(int64_t)(u->line_base + (int)(special % u->range));
        } else if (op == 0) {
            const uint64_t length = leb(&b, false);
            struct bytes inner = b;

            number(&b, length < 0x7fffffff ? (unsigned)length : 0x7fffffff);
            inner.end = b.at;
            const unsigned what = (unsigned)number(&inner, 1);

            if (what == 1)
                emit = ends = true;
            else if (what == 2)
                now.address = number(&inner, length - 1 == 4 ? 4 : 8);
        } else if (op == 1) {
            emit = true;
        } else if (op == 2) {
            now.address += leb(&b, false) * u->step;
        } else if (op == 3) {
            now.line += leb(&b, true);
        } else if (op == 4) {
            now.file = leb(&b, false);
        } else if (op == 8) {
            now.address += (uint64_t)((255 - u->first_special) / u->range) * u->step;
        } else if (op == 9) {
            now.address += number(&b, 2);
        } else {
            for (int i = 0; i < u->lengths[op - 1]; i++)
                leb(&b, false);
        }
        if (!emit)
            continue;
        if (open && now.address > before.address && before.address != 0)
            rows_meet(s, u, &before, now.address);
        open = !ends;
        before = now;
        if (ends)
            now = start;
    }
}

void dwarf_line_find(const char *module, struct line_query *queries, int count)
{
    const int file = open(module, O_RDONLY | O_CLOEXEC);
    struct search s = {.queries = queries, .count = count};
    struct bytes lines;
    Elf64_Ehdr head;
    struct unit u;

    if (file < 0)
        return;
    if (head_read(file, &head)) {
        uint8_t *const strings = section(file, &head, ".debug_line_str", &s.strings);
        uint8_t *const content = section(file, &head, ".debug_line", &lines);

        s.base = base_of(file, &head);
        while (lines.at < lines.end)
            if (unit_read(&lines, &u))
                unit_run(&s, &u);
        free(content);
        free(strings);
    }
    close(file);
}
