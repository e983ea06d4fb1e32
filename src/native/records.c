/* Record batches: where they begin, and the fields of their records as columns. */
#include "native.h"

enum { LENGTH_AT = 8, LENGTH_END = 12, CRC_AT = 17, CHECKED_FROM = 21, BATCH_OVERHEAD = 61 };
enum { AHEAD = 1 << 13 };

/* Prefetch memory that is going to be read; it may lie outside of the buffer. */
static inline void bring_near(const uint8_t *from, Py_ssize_t size) {
#if defined(__GNUC__)
    for (Py_ssize_t line = 0; line < size; line += 64)
        __builtin_prefetch((const void *)((uintptr_t)from + (uintptr_t)line));
#else
    (void)from, (void)size;
#endif
}

/* The start of each complete batch, up to the first that is cut short or has too small a length. */
static Py_ssize_t follow_lengths(const Py_buffer *data, int64_t *places) {
    const uint8_t *bytes = data->buf;
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; at <= data->len - BATCH_OVERHEAD;) {
        int32_t length = (int32_t)read_u32(bytes + at + LENGTH_AT);
        if (length < BATCH_OVERHEAD - LENGTH_END || length > data->len - at - LENGTH_END)
            break;
        /* Each length leads to the next one, so the processor cannot prefetch by itself. */
        if (places == NULL)
            bring_near(bytes + (at + AHEAD < data->len ? at + AHEAD : at), LENGTH_END + length);
        else
            places[count] = at;
        count++;
        at += LENGTH_END + length;
    }
    return count;
}

PyObject *find_places(PyObject *Py_UNUSED(module), PyObject *buffer) {
    Py_buffer data;
    if (PyObject_GetBuffer(buffer, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    Py_ssize_t size = follow_lengths(&data, NULL) * (Py_ssize_t)sizeof(int64_t);
    PyObject *found = PyBytes_FromStringAndSize(NULL, size);
    if (found != NULL)
        follow_lengths(&data, (int64_t *)PyBytes_AsString(found));
    PyBuffer_Release(&data);
    return found;
}

/* -- headers --------------------------------------------------------------------------------------- */

enum { HEADER_FIELDS = 13 };

/* The fields of a header, in the order of RecordBatch; `step` is from one to the next in `out`. */
static void read_header(const uint8_t *at, int64_t *out, Py_ssize_t step) {
    const int64_t fields[HEADER_FIELDS] = {
        (int64_t)read_u64(at),             /* base offset */
        (int32_t)read_u32(at + LENGTH_AT), /* length */
        (int32_t)read_u32(at + 12),        /* partition leader epoch */
        (int8_t)at[16],                    /* magic */
        read_u32(at + CRC_AT),             /* crc */
        (int16_t)read_u16(at + 21),        /* attributes */
        (int32_t)read_u32(at + 23),        /* last offset delta */
        (int64_t)read_u64(at + 27),        /* base timestamp */
        (int64_t)read_u64(at + 35),        /* max timestamp */
        (int64_t)read_u64(at + 43),        /* producer id */
        (int16_t)read_u16(at + 51),        /* producer epoch */
        (int32_t)read_u32(at + 53),        /* base sequence */
        (int32_t)read_u32(at + 57),        /* records count */
    };
    for (int field = 0; field < HEADER_FIELDS; field++)
        out[field * step] = fields[field];
}

PyObject *read_headers(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data, places, out;
    if (!PyArg_ParseTuple(args, "y*y*w*", &data, &places, &out))
        return NULL;
    const int64_t *at = places.buf;
    int64_t *columns = out.buf;
    Py_ssize_t count = places.len / (Py_ssize_t)sizeof(int64_t);
    int sound = out.len == count * HEADER_FIELDS * (Py_ssize_t)sizeof(int64_t);
    for (Py_ssize_t batch = 0; sound && batch < count; batch++) {
        sound = at[batch] >= 0 && at[batch] <= data.len - BATCH_OVERHEAD;
        if (sound)
            read_header((const uint8_t *)data.buf + at[batch], columns + batch, count);
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&places);
    PyBuffer_Release(&out);
    return PyBool_FromLong(sound);
}

/* -- checksums ------------------------------------------------------------------------------------- */

/* A message that is made of pieces and checked as it grows: small pieces are put together first. */
typedef struct {
    PyObject *crc32c;
    unsigned long value;
    Py_ssize_t used;
    uint8_t pieces[1 << 16];
} Message;

static int check_piece(Message *message, const uint8_t *at, Py_ssize_t size) {
    PyObject *piece = PyMemoryView_FromMemory((char *)at, size, PyBUF_READ), *value = NULL;
    if (piece != NULL)
        value = PyObject_CallFunction(message->crc32c, "Ok", piece, message->value);
    if (value != NULL)
        message->value = PyLong_AsUnsignedLong(value);
    Py_XDECREF(piece);
    Py_XDECREF(value);
    return value != NULL && !PyErr_Occurred();
}

static int check_pieces(Message *message) {
    Py_ssize_t used = message->used;
    message->used = 0;
    return used == 0 || check_piece(message, message->pieces, used);
}

static int add_piece(Message *message, const uint8_t *at, Py_ssize_t size) {
    const Py_ssize_t most = (Py_ssize_t)sizeof(message->pieces);
    if (size > most - message->used && !check_pieces(message))
        return 0;
    if (size > most)
        return check_piece(message, at, size);
    memcpy(message->pieces + message->used, at, (size_t)size);
    message->used += size;
    return 1;
}

/* What a batch's checksum covers, and then the checksum itself, least byte first. */
static int add_batch(Message *message, const uint8_t *batch, const uint8_t *end) {
    const uint8_t *crc = batch + CRC_AT;
    const uint8_t reversed[] = {crc[3], crc[2], crc[1], crc[0]};
    return add_piece(message, batch + CHECKED_FROM, end - batch - CHECKED_FROM) &&
           add_piece(message, reversed, sizeof(reversed));
}

/* The CRC of all batches as one message, `back` between them; see coterie.protocol.records.checksums. */
PyObject *join_checksums(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *crc32c;
    Py_buffer data, starts, ends, back;
    if (!PyArg_ParseTuple(args, "y*y*y*Oy*", &data, &starts, &ends, &crc32c, &back))
        return NULL;
    const uint8_t *bytes = data.buf;
    const int64_t *from = starts.buf, *to = ends.buf;
    Py_ssize_t count = starts.len / (Py_ssize_t)sizeof(int64_t);
    Message *message = PyMem_Malloc(sizeof(Message));
    int sound = message != NULL;
    if (!sound)
        PyErr_NoMemory();
    else
        message->crc32c = crc32c, message->value = 0, message->used = 0;
    for (Py_ssize_t batch = 0; sound && batch < count; batch++) {
        sound = ends.len == starts.len && from[batch] >= 0 && from[batch] <= to[batch] &&
                to[batch] <= data.len && to[batch] - from[batch] >= CHECKED_FROM;
        if (!sound)
            PyErr_SetString(PyExc_ValueError, "a batch outside of the buffer");
        sound = sound && (batch == 0 || add_piece(message, back.buf, back.len)) &&
                add_batch(message, bytes + from[batch], bytes + to[batch]);
    }
    sound = sound && check_pieces(message);
    PyObject *value = sound ? PyLong_FromUnsignedLong(message->value) : NULL;
    PyMem_Free(message);
    PyBuffer_Release(&data);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&ends);
    PyBuffer_Release(&back);
    return value;
}

/* -- records --------------------------------------------------------------------------------------- */

/* Batches: where their records begin and end, how many there are, and what they count from. */
typedef struct {
    const int64_t *starts, *ends, *counts, *base_offsets, *base_timestamps;
    Py_ssize_t count;
} Batches;

/* The columns of the records, one after the other in memory. */
typedef struct {
    int64_t *timestamp, *offset, *key_start, *key_length, *value_start, *value_length;
} Fields;

/* Length and bytes of a key or value; any negative length is null, as Kafka reads it. */
static inline int skip_bytes(Cursor *cursor, const uint8_t *data, int64_t *start, int64_t *length) {
    if (!read_varint(cursor, 5, length))
        return 0;
    *start = cursor->at - data;
    if (*length < 0)
        *length = -1;
    else if (*length > cursor->end - cursor->at)
        return 0;
    else
        cursor->at += *length;
    return 1;
}

/* The sum, around the corner if it is too large: who has written it counted so. */
static inline int64_t add(int64_t base, int64_t delta) {
    return (int64_t)((uint64_t)base + (uint64_t)delta);
}

/* One record, which must end where its length says; headers are measured, not read. */
static inline int read_record(Cursor *batch, const uint8_t *data, Fields *fields, Py_ssize_t row,
                              int64_t base_timestamp, int64_t base_offset) {
    int64_t length, timestamp, offset, headers;
    if (!read_varint(batch, 5, &length) || length < 1 || length > batch->end - batch->at)
        return 0;
    Cursor record = {batch->at + 1, batch->at + length}; /* after the attributes, which are unused */
    batch->at = record.end;
    if (!read_varint(&record, 10, &timestamp) || !read_varint(&record, 5, &offset) ||
        !skip_bytes(&record, data, &fields->key_start[row], &fields->key_length[row]) ||
        !skip_bytes(&record, data, &fields->value_start[row], &fields->value_length[row]) ||
        !read_varint(&record, 5, &headers))
        return 0;
    fields->timestamp[row] = add(base_timestamp, timestamp);
    fields->offset[row] = add(base_offset, offset);
    int64_t left = record.end - record.at;
    return headers == 0 ? left == 0 : headers > 0 && headers * 2 <= left;
}

/* Whether all records of all batches are well-formed; if not, the caller reports the error. */
static int read_batches(const Py_buffer *data, const Batches *batches, Fields *fields, Py_ssize_t rows) {
    const uint8_t *bytes = data->buf;
    Py_ssize_t row = 0;
    for (Py_ssize_t batch = 0; batch < batches->count; batch++) {
        int64_t start = batches->starts[batch], end = batches->ends[batch], count = batches->counts[batch];
        if (start < 0 || start > end || end > data->len || count < 0 || count > rows - row)
            return 0;
        Cursor cursor = {bytes + start, bytes + end};
        for (Py_ssize_t stop = row + count; row < stop; row++)
            if (!read_record(&cursor, bytes, fields, row, batches->base_timestamps[batch],
                             batches->base_offsets[batch]))
                return 0;
        if (cursor.at != cursor.end)
            return 0;
    }
    return row == rows;
}

PyObject *find_records(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data, of_batches[5], out;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*w*", &data, &of_batches[0], &of_batches[1], &of_batches[2],
                          &of_batches[3], &of_batches[4], &out))
        return NULL;
    Batches batches = {of_batches[0].buf, of_batches[1].buf, of_batches[2].buf, of_batches[3].buf,
                       of_batches[4].buf, of_batches[0].len / (Py_ssize_t)sizeof(int64_t)};
    Py_ssize_t rows = out.len / (6 * (Py_ssize_t)sizeof(int64_t));
    int64_t *columns = out.buf;
    Fields fields = {columns,            columns + rows,     columns + 2 * rows,
                     columns + 3 * rows, columns + 4 * rows, columns + 5 * rows};
    int sound = 1;
    for (int index = 1; index < 5; index++)
        sound = sound && of_batches[index].len == of_batches[0].len;
    sound = sound && read_batches(&data, &batches, &fields, rows);
    PyBuffer_Release(&data);
    for (int index = 0; index < 5; index++)
        PyBuffer_Release(&of_batches[index]);
    PyBuffer_Release(&out);
    return PyBool_FromLong(sound);
}
