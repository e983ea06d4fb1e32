/* Reading the wire: big-endian numbers and Kafka's varints, within bounds. */
#ifndef COTERIE_NATIVE_H
#define COTERIE_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000 /* one build for every Python from 3.11 on */
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* A piece of a buffer that is yet to be read. Every step checks that it stays within. */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

static inline uint16_t read_u16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t read_u64(const uint8_t *at) {
    return (uint64_t)read_u32(at) << 32 | read_u32(at + 4);
}

/* An unsigned varint of at most `most` bytes (5 for 32 bits, 10 for 64); false if it is longer or cut. */
static inline int read_unsigned_varint(Cursor *cursor, int most, uint64_t *value) {
    if (cursor->at < cursor->end && *cursor->at < 0x80) {
        *value = *cursor->at++;
        return 1;
    }
    uint64_t raw = 0;
    for (int index = 0; index < most && cursor->at < cursor->end; index++) {
        uint8_t octet = *cursor->at++;
        raw |= (uint64_t)(octet & 0x7F) << (7 * index);
        if (octet < 0x80) {
            /* The last byte has room for the top 4 bits of 32, or the top bit of 64. */
            if (index == most - 1 && octet > (most == 5 ? 0x0F : 0x01))
                return 0;
            *value = raw;
            return 1;
        }
    }
    return 0;
}

/* The same for signed numbers, which are zigzag-coded in records. */
static inline int read_varint(Cursor *cursor, int most, int64_t *value) {
    uint64_t raw;
    if (!read_unsigned_varint(cursor, most, &raw))
        return 0;
    *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return 1;
}

PyObject *find_places(PyObject *module, PyObject *buffer);
PyObject *read_headers(PyObject *module, PyObject *args);
PyObject *join_checksums(PyObject *module, PyObject *args);
PyObject *find_records(PyObject *module, PyObject *args);
PyObject *read_commits(PyObject *module, PyObject *args);

#endif
