/* Record batches: where they begin, and the fields of their records as columns. */
#include "native.h"

enum { LENGTH_AT = 8, LENGTH_END = 12, CRC_AT = 17, CHECKED_FROM = 21, BATCH_OVERHEAD = 61 };

/* Where each whole batch begins, up to the first that is not all there or says that it is too short. */
static Py_ssize_t follow_lengths(const Py_buffer *data, int64_t *places) {
    const uint8_t *bytes = data->buf;
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; at <= data->len - BATCH_OVERHEAD;) {
        int32_t length = (int32_t)read_u32(bytes + at + LENGTH_AT);
        if (length < BATCH_OVERHEAD - LENGTH_END || length > data->len - at - LENGTH_END)
            break;
        if (places != NULL)
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

/* The fields of a header, in the order and under the names of the columnar reader. */
typedef struct {
    int64_t base_offset, length, partition_leader_epoch, magic, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, records_count;
} Header;

static Header read_header(const uint8_t *at) {
    return (Header){
        .base_offset = (int64_t)read_u64(at),
        .length = (int32_t)read_u32(at + LENGTH_AT),
        .partition_leader_epoch = (int32_t)read_u32(at + 12),
        .magic = (int8_t)at[16],
        .crc = read_u32(at + CRC_AT),
        .attributes = (int16_t)read_u16(at + 21),
        .last_offset_delta = (int32_t)read_u32(at + 23),
        .base_timestamp = (int64_t)read_u64(at + 27),
        .max_timestamp = (int64_t)read_u64(at + 35),
        .producer_id = (int64_t)read_u64(at + 43),
        .producer_epoch = (int16_t)read_u16(at + 51),
        .base_sequence = (int32_t)read_u32(at + 53),
        .records_count = (int32_t)read_u32(at + 57),
    };
}

PyObject *read_headers(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data, places, out;
    if (!PyArg_ParseTuple(args, "y*y*w*", &data, &places, &out))
        return NULL;
    const int64_t *at = places.buf;
    Header *headers = out.buf;
    Py_ssize_t count = places.len / (Py_ssize_t)sizeof(int64_t);
    int sound = out.len == count * (Py_ssize_t)sizeof(Header);
    for (Py_ssize_t batch = 0; sound && batch < count; batch++) {
        sound = at[batch] >= 0 && at[batch] <= data.len - BATCH_OVERHEAD;
        if (sound)
            headers[batch] = read_header((const uint8_t *)data.buf + at[batch]);
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

/* What a batch's checksum covers, and behind it the checksum itself, least byte first. */
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
        sound = ends.len == starts.len && from[batch] >= 0 && to[batch] <= data.len &&
                to[batch] - from[batch] >= CHECKED_FROM;
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

/* The columns of the records, one behind the other in memory. */
typedef struct {
    int64_t *timestamp_delta, *offset_delta, *key_start, *key_length, *value_start, *value_length;
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

/* One record, which must end where its length says; headers are measured, not read. */
static inline int read_record(Cursor *batch, const uint8_t *data, Fields *fields, Py_ssize_t row) {
    int64_t length, headers;
    if (!read_varint(batch, 5, &length) || length < 1 || length > batch->end - batch->at)
        return 0;
    Cursor record = {batch->at + 1, batch->at + length}; /* behind the attributes, which are unused */
    batch->at = record.end;
    if (!read_varint(&record, 10, &fields->timestamp_delta[row]) ||
        !read_varint(&record, 5, &fields->offset_delta[row]) ||
        !skip_bytes(&record, data, &fields->key_start[row], &fields->key_length[row]) ||
        !skip_bytes(&record, data, &fields->value_start[row], &fields->value_length[row]) ||
        !read_varint(&record, 5, &headers))
        return 0;
    int64_t left = record.end - record.at;
    return headers == 0 ? left == 0 : headers > 0 && headers * 2 <= left;
}

/* Whether all records of all batches are as they should be; if not, somebody else says what is wrong. */
static int read_batches(const Py_buffer *data, const int64_t *starts, const int64_t *ends,
                        const int64_t *counts, Py_ssize_t batches, Fields *fields, Py_ssize_t rows) {
    const uint8_t *bytes = data->buf;
    Py_ssize_t row = 0;
    for (Py_ssize_t batch = 0; batch < batches; batch++) {
        if (starts[batch] < 0 || starts[batch] > ends[batch] || ends[batch] > data->len ||
            counts[batch] < 0 || counts[batch] > rows - row)
            return 0;
        Cursor cursor = {bytes + starts[batch], bytes + ends[batch]};
        for (Py_ssize_t stop = row + counts[batch]; row < stop; row++)
            if (!read_record(&cursor, bytes, fields, row))
                return 0;
        if (cursor.at != cursor.end)
            return 0;
    }
    return row == rows;
}

PyObject *find_records(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data, starts, ends, counts, out;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*", &data, &starts, &ends, &counts, &out))
        return NULL;
    Py_ssize_t batches = counts.len / (Py_ssize_t)sizeof(int64_t);
    Py_ssize_t rows = out.len / (6 * (Py_ssize_t)sizeof(int64_t));
    int64_t *columns = out.buf;
    Fields fields = {columns,            columns + rows,     columns + 2 * rows,
                     columns + 3 * rows, columns + 4 * rows, columns + 5 * rows};
    int sound = starts.len == counts.len && ends.len == counts.len &&
                read_batches(&data, starts.buf, ends.buf, counts.buf, batches, &fields, rows);
    PyBuffer_Release(&data);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&ends);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&out);
    return PyBool_FromLong(sound);
}
