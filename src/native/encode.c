/* Messages to bytes. 0 or NULL without an exception is a value that does not fit: Python reports the error. */
#include "codec.h"

/* A buffer that grows; small messages stay on the stack. */
typedef struct {
    uint8_t *start, *at, *end;
    int until_signals;
    uint8_t small[1024];
} Writer;

static int write_value(Writer *writer, const Type *type, PyObject *value);

/* Whether there is room for so many bytes, if need be in a larger buffer. */
static int grow(Writer *writer, size_t size) {
    size_t used = (size_t)(writer->at - writer->start), room = 2 * (used + size);
    uint8_t *old = writer->start == writer->small ? NULL : writer->start;
    uint8_t *larger = PyMem_Realloc(old, room);
    if (larger == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    if (old == NULL)
        memcpy(larger, writer->small, used);
    writer->start = larger;
    writer->at = larger + used;
    writer->end = larger + room;
    return 1;
}

static inline int reserve(Writer *writer, size_t size) {
    return (size_t)(writer->end - writer->at) >= size || grow(writer, size);
}

static int write_bytes(Writer *writer, const void *bytes, Py_ssize_t size) {
    if (!reserve(writer, (size_t)size))
        return 0;
    memcpy(writer->at, bytes, (size_t)size);
    writer->at += size;
    return 1;
}

static inline int write_number(Writer *writer, uint64_t value, int size) {
    if (!reserve(writer, (size_t)size))
        return 0;
    for (int shift = 8 * (size - 1); shift >= 0; shift -= 8)
        *writer->at++ = (uint8_t)(value >> shift);
    return 1;
}

/* An unsigned varint at `at`, which has room for five bytes; where it ends. */
static inline uint8_t *put_count(uint8_t *at, uint32_t value) {
    for (; value > 0x7F; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

/* The length of a text, blob or array; `width` bytes if it is not compact. -1 is null. */
static inline int write_length(Writer *writer, const Type *type, Py_ssize_t length, int width) {
    if (!type->compact)
        return write_number(writer, (uint64_t)length, width);
    if (!reserve(writer, 5))
        return 0;
    writer->at = put_count(writer->at, (uint32_t)(length + 1));
    return 1;
}

/* -- numbers --------------------------------------------------------------------------------------- */

static inline int write_integer(Writer *writer, PyObject *value, int size, int64_t lowest, int64_t highest) {
    if (!Py_IS_TYPE(value, &PyLong_Type) && !PyLong_Check(value))
        return 0;
    int64_t number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return number >= lowest && number <= highest && write_number(writer, (uint64_t)number, size);
}

static int write_float(Writer *writer, PyObject *value) {
    if (!PyFloat_CheckExact(value))
        return 0;
    double number = PyFloat_AsDouble(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return write_number(writer, bits, 8);
}

/* -- texts, UUIDs, blobs --------------------------------------------------------------------------- */

static int write_text(Writer *writer, const Type *type, PyObject *value) {
    if (!PyUnicode_Check(value))
        return 0;
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == NULL) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            PyErr_Clear();
        return 0;
    }
    return size <= LONGEST_STRING && write_length(writer, type, size, 2) && write_bytes(writer, text, size);
}

static int write_uuid(Writer *writer, PyObject *value) {
    return PyBytes_Check(value) && PyBytes_Size(value) == UUID_BYTES &&
           write_bytes(writer, PyBytes_AsString(value), UUID_BYTES);
}

static int write_blob(Writer *writer, const Type *type, PyObject *value) {
    Py_buffer view;
    if (!PyObject_CheckBuffer(value))
        return 0;
    if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return 0;
    }
    int written = view.itemsize == 1 && view.len < INT32_MAX && write_length(writer, type, view.len, 4) &&
                  write_bytes(writer, view.buf, view.len);
    PyBuffer_Release(&view);
    return written;
}

static int write_encoded(Writer *writer, PyObject *value) {
    return PyBytes_CheckExact(value) && write_bytes(writer, PyBytes_AsString(value), PyBytes_Size(value));
}

/* -- arrays and structs ---------------------------------------------------------------------------- */

static int write_array(Writer *writer, const Type *type, PyObject *value) {
    if (!PyTuple_CheckExact(value) && !PyTuple_Check(value))
        return 0;
    Py_ssize_t count = PyTuple_Size(value);
    if (count >= INT32_MAX || !write_length(writer, type, count, 4))
        return 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        if (!write_value(writer, type->element, PyTuple_GetItem(value, index)))
            return 0;
        if (--writer->until_signals == 0) {
            writer->until_signals = SIGNALS_EVERY;
            if (PyErr_CheckSignals() < 0)
                return 0;
        }
    }
    return 1;
}

/* 1 if the value is the field's default, 0 if not, -1 with an exception. */
static inline int is_default(const Field *field, PyObject *value) {
    if (value == field->missing)
        return 1;
    if (value == Py_None || field->missing == Py_None)
        return 0;
    return PyObject_RichCompareBool(value, field->missing, Py_EQ);
}

/* Tag, size and value. One byte is left for the size, and the value is moved if it needs more. */
static int write_tagged(Writer *writer, const Field *field, PyObject *value) {
    if (!reserve(writer, 6))
        return 0;
    writer->at = put_count(writer->at, field->tag) + 1;
    Py_ssize_t from = writer->at - writer->start;
    if (!write_value(writer, &field->type, value) || !reserve(writer, 4))
        return 0;
    uint8_t size_bytes[5], *body = writer->start + from;
    Py_ssize_t size = writer->at - body;
    if (size >= INT32_MAX)
        return 0;
    Py_ssize_t more = put_count(size_bytes, (uint32_t)size) - size_bytes - 1;
    if (more > 0)
        memmove(body + more, body, (size_t)size);
    memcpy(body - 1, size_bytes, (size_t)more + 1);
    writer->at += more;
    return 1;
}

static int write_tags(Writer *writer, const Shape *shape, PyObject *message) {
    Py_ssize_t count_at = writer->at - writer->start;
    uint8_t count = 0;
    if (!write_number(writer, 0, 1))
        return 0;
    for (Py_ssize_t index = 0; index < shape->tagged.count; index++) {
        const Field *field = &shape->tagged.at[index];
        PyObject *value = *slot_of(message, field);
        int same = value == NULL ? -1 : is_default(field, value);
        if (same < 0 || (same == 0 && !write_tagged(writer, field, value)))
            return 0;
        count = (uint8_t)(count + (same == 0));
    }
    writer->start[count_at] = count;
    return 1;
}

static int write_struct(Writer *writer, const Shape *shape, PyObject *message) {
    if (!Py_IS_TYPE(message, shape->cls))
        return 0;
    for (Py_ssize_t index = 0; index < shape->refused; index++) {
        const Field *field = &shape->absent.at[index];
        PyObject *value = *slot_of(message, field);
        if (value == NULL || is_default(field, value) != 1)
            return 0;
    }
    for (Py_ssize_t index = 0; index < shape->plain.count; index++) {
        const Field *field = &shape->plain.at[index];
        PyObject *value = *slot_of(message, field);
        if (value == NULL || !write_value(writer, &field->type, value))
            return 0;
    }
    return !shape->flexible || write_tags(writer, shape, message);
}

static int write_null(Writer *writer, const Type *type) {
    if (!type->nullable)
        return 0;
    switch (type->kind) {
    case STRUCT:
        return write_number(writer, type->tagged ? 0 : 0xFF, 1);
    case TEXT:
        return write_length(writer, type, -1, 2);
    case BLOB:
    case RECORDS:
    case ARRAY:
        return write_length(writer, type, -1, 4);
    default:
        return 0;
    }
}

static int write_value(Writer *writer, const Type *type, PyObject *value) {
    if (value == Py_None)
        return write_null(writer, type);
    switch (type->kind) {
    case BOOL:
        return (value == Py_True || value == Py_False) && write_number(writer, value == Py_True, 1);
    case INT8:
        return write_integer(writer, value, 1, INT8_MIN, INT8_MAX);
    case INT16:
        return write_integer(writer, value, 2, INT16_MIN, INT16_MAX);
    case UINT16:
        return write_integer(writer, value, 2, 0, UINT16_MAX);
    case INT32:
        return write_integer(writer, value, 4, INT32_MIN, INT32_MAX);
    case INT64:
        return write_integer(writer, value, 8, INT64_MIN, INT64_MAX);
    case FLOAT64:
        return write_float(writer, value);
    case UUID:
        return write_uuid(writer, value);
    case TEXT:
        return write_text(writer, type, value);
    case BLOB:
    case RECORDS:
        return write_blob(writer, type, value);
    case ENCODED:
        return write_encoded(writer, value);
    case ARRAY:
        return write_array(writer, type, value);
    case STRUCT:
        return (!type->nullable || write_number(writer, 1, 1)) && write_struct(writer, type->shape, value);
    }
    return 0;
}

/* encode(message, before) -> bytes, or None where a value does not fit. */
PyObject *program_encode(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Program *program = (Program *)self;
    if (count != 2 || !PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "encode takes a message and the bytes before it");
        return NULL;
    }
    Writer writer;
    writer.start = writer.at = writer.small;
    writer.end = writer.small + sizeof(writer.small);
    writer.until_signals = SIGNALS_EVERY;
    PyObject *encoded = NULL;
    if (reserve(&writer, (size_t)program->last_size) &&
        write_bytes(&writer, PyBytes_AsString(args[1]), PyBytes_Size(args[1])) &&
        write_struct(&writer, program->shape, args[0])) {
        program->last_size = writer.at - writer.start;
        encoded = PyBytes_FromStringAndSize((const char *)writer.start, program->last_size);
    }
    if (writer.start != writer.small)
        PyMem_Free(writer.start);
    if (encoded == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return encoded;
}
