/* Bytes to messages. NULL without an exception is irregular input: the decoder in Python reports the error. */
#include "codec.h"

typedef struct {
    Cursor cursor;
    const uint8_t *start;
    PyObject *data; /* what the bytes belong to: record batches are slices of it */
    PyObject *uuid;
    Py_ssize_t budget; /* elements of arrays that may still be made */
    int until_signals;
} Reader;

enum { NIL = -1, IRREGULAR = -2 };

static PyObject *read_value(Reader *reader, const Type *type);

static inline int64_t left(const Reader *reader) {
    return reader->cursor.end - reader->cursor.at;
}

/* An unsigned varint of 32 bits in its shortest form; IRREGULAR if it is not. */
static inline int64_t read_count(Reader *reader) {
    const uint8_t *from = reader->cursor.at;
    uint64_t value;
    if (!read_unsigned_varint(&reader->cursor, 5, &value))
        return IRREGULAR;
    if (reader->cursor.at - from > 1 && reader->cursor.at[-1] == 0)
        return IRREGULAR;
    return (int64_t)value;
}

/* The length of a text, blob or array; `width` bytes if it is not compact. */
static inline int64_t read_length(Reader *reader, const Type *type, int width) {
    if (type->compact) {
        int64_t coded = read_count(reader);
        return coded == IRREGULAR ? IRREGULAR : coded - 1;
    }
    if (left(reader) < width)
        return IRREGULAR;
    const uint8_t *at = reader->cursor.at;
    reader->cursor.at += width;
    int64_t length = width == 2 ? (int16_t)read_u16(at) : (int32_t)read_u32(at);
    return length < 0 ? NIL : length;
}

static inline PyObject *read_null(const Type *type, int64_t length) {
    return length == NIL && type->nullable ? Py_NewRef(Py_None) : NULL;
}

/* -- texts, UUIDs, blobs --------------------------------------------------------------------------- */

static PyObject *make_text(const uint8_t *at, Py_ssize_t size) {
    PyObject *text = PyUnicode_DecodeUTF8((const char *)at, size, NULL);
    if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        PyErr_Clear();
    return text;
}

static PyObject *make_uuid(PyObject *cls, const uint8_t *at) {
    PyObject *raw = PyBytes_FromStringAndSize((const char *)at, UUID_BYTES);
    PyObject *uuid = raw != NULL ? PyObject_CallFunctionObjArgs(cls, raw, NULL) : NULL;
    Py_XDECREF(raw);
    return uuid;
}

/* The place of these bytes in the cache: by their length, and the first and last four of them. */
static inline Place *find_place(Recent *recent, const uint8_t *at, Py_ssize_t size) {
    uint32_t head = 0, tail = 0;
    if (size >= 4)
        head = read_u32(at), tail = read_u32(at + size - 4);
    else
        for (Py_ssize_t index = 0; index < size; index++)
            head = head << 8 | at[index];
    uint32_t mixed = (head * 31u + tail + (uint32_t)size) * 2654435761u;
    return &recent->places[mixed >> 28];
}

static void replace(Place *place, PyObject *object, Kind kind) {
    Place old = *place, new = {Py_NewRef(object), NULL, 0};
    if (kind == TEXT)
        new.bytes = PyUnicode_AsUTF8AndSize(object, &new.size);
    else
        new.bytes = PyBytes_AsString(object), new.size = UUID_BYTES;
    if (new.bytes == NULL) {
        PyErr_Clear(); /* no memory for a copy of the text in UTF-8: it is not cached */
        Py_CLEAR(new.object);
    }
    *place = new;
    Py_XDECREF(old.object);
}

/* A text or UUID; if the field had the same value not long ago, that object. */
static inline PyObject *recall(Reader *reader, const Type *type, const uint8_t *at, Py_ssize_t size) {
    Recent *recent = type->recent;
    Place *place = NULL;
    if (recent->asleep > 0)
        recent->asleep--;
    else if (size <= LONGEST_RECENT) {
        place = find_place(recent, at, size);
        if (place->object != NULL && place->size == size && memcmp(place->bytes, at, (size_t)size) == 0) {
            recent->credit += recent->credit < CREDIT;
            return Py_NewRef(place->object);
        }
        recent->credit -= 2;
        if (recent->credit < 0)
            recent->asleep = ASLEEP, recent->credit = CREDIT / 4;
    }
    PyObject *made = type->kind == TEXT ? make_text(at, size) : make_uuid(reader->uuid, at);
    if (made != NULL && place != NULL)
        replace(place, made, type->kind);
    return made;
}

static inline PyObject *read_text(Reader *reader, const Type *type) {
    int64_t size = read_length(reader, type, 2);
    if (size < 0)
        return read_null(type, size);
    if (size > LONGEST_STRING || size > left(reader))
        return NULL;
    const uint8_t *at = reader->cursor.at;
    reader->cursor.at += size;
    return recall(reader, type, at, (Py_ssize_t)size);
}

static PyObject *read_blob(Reader *reader, const Type *type) {
    int64_t size = read_length(reader, type, 4);
    if (size < 0)
        return read_null(type, size);
    if (size > left(reader))
        return NULL;
    const uint8_t *at = reader->cursor.at;
    reader->cursor.at += size;
    if (type->kind == RECORDS && !PyBytes_CheckExact(reader->data))
        return PySequence_GetSlice(reader->data, at - reader->start, at - reader->start + (Py_ssize_t)size);
    return PyBytes_FromStringAndSize((const char *)at, (Py_ssize_t)size);
}

/* -- arrays and structs ---------------------------------------------------------------------------- */

static PyObject *read_array(Reader *reader, const Type *type) {
    int64_t count = read_length(reader, type, 4);
    if (count < 0)
        return read_null(type, count);
    if (count > reader->budget || count > left(reader) / type->least)
        return NULL;
    reader->budget -= (Py_ssize_t)count;
    PyObject *array = PyTuple_New((Py_ssize_t)count);
    for (Py_ssize_t index = 0; array != NULL && index < count; index++) {
        PyObject *element = read_value(reader, type->element);
        if (element == NULL || PyTuple_SetItem(array, index, element) < 0)
            Py_CLEAR(array);
        else if (--reader->until_signals == 0) {
            reader->until_signals = SIGNALS_EVERY;
            if (PyErr_CheckSignals() < 0)
                Py_CLEAR(array);
        }
    }
    return array;
}

/* The tagged fields that are in the bytes, of which unknown ones are skipped. */
static int read_tagged(Reader *reader, const Shape *shape, PyObject *made, int64_t count) {
    if (count < 0 || count > MOST_TAGS)
        return 0;
    for (int64_t last = -1; count > 0; count--) {
        int64_t tag = read_count(reader), size = read_count(reader);
        if (tag <= last || size < 0 || size > left(reader))
            return 0;
        last = tag;
        const uint8_t *stop = reader->cursor.at + size;
        const Field *field = shape->tagged.at, *end = field + shape->tagged.count;
        while (field < end && field->tag != tag)
            field++;
        if (field == end)
            reader->cursor.at = stop;
        else if ((*slot_of(made, field) = read_value(reader, &field->type)) == NULL)
            return 0;
        if (reader->cursor.at != stop)
            return 0;
    }
    return 1;
}

static inline PyObject *read_struct(Reader *reader, const Shape *shape) {
    PyObject *made = PyObject_New(PyObject, shape->cls);
    if (made == NULL)
        return NULL;
    memset((char *)made + sizeof(PyObject), 0, (size_t)shape->size - sizeof(PyObject));
    for (Py_ssize_t index = 0; index < shape->plain.count; index++) {
        const Field *field = &shape->plain.at[index];
        if ((*slot_of(made, field) = read_value(reader, &field->type)) == NULL)
            goto failed;
    }
    if (shape->flexible && !read_tagged(reader, shape, made, read_count(reader)))
        goto failed;
    for (Py_ssize_t index = 0; index < shape->tagged.count; index++) {
        const Field *field = &shape->tagged.at[index];
        if (*slot_of(made, field) == NULL)
            *slot_of(made, field) = Py_NewRef(field->missing);
    }
    for (Py_ssize_t index = 0; index < shape->absent.count; index++) {
        const Field *field = &shape->absent.at[index];
        *slot_of(made, field) = Py_NewRef(field->missing);
    }
    return made;
failed:
    Py_DECREF(made);
    return NULL;
}

/* A struct that may be null has a byte before it: negative for null, and in a tagged field 0, too. */
static PyObject *read_nested(Reader *reader, const Type *type) {
    if (type->nullable) {
        if (left(reader) < 1)
            return NULL;
        if ((int8_t)*reader->cursor.at++ < (type->tagged ? 1 : 0))
            return Py_NewRef(Py_None);
    }
    return read_struct(reader, type->shape);
}

/* -- values ---------------------------------------------------------------------------------------- */

static PyObject *read_float(const uint8_t *at) {
    uint64_t bits = read_u64(at);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return PyFloat_FromDouble(value);
}

static PyObject *read_value(Reader *reader, const Type *type) {
    static const uint8_t sizes[] = {[BOOL] = 1,  [INT8] = 1,  [INT16] = 2,   [UINT16] = 2,
                                    [INT32] = 4, [INT64] = 8, [FLOAT64] = 8, [UUID] = UUID_BYTES};
    const uint8_t *at = reader->cursor.at;
    switch (type->kind) {
    case TEXT:
        return read_text(reader, type);
    case BLOB:
    case RECORDS:
        return read_blob(reader, type);
    case ARRAY:
        return read_array(reader, type);
    case STRUCT:
        return read_nested(reader, type);
    case ENCODED:
        return NULL;
    default:
        break;
    }
    int size = sizes[type->kind];
    if (left(reader) < size)
        return NULL;
    reader->cursor.at += size;
    switch (type->kind) {
    case BOOL:
        return PyBool_FromLong(*at);
    case INT8:
        return PyLong_FromLong((int8_t)*at);
    case INT16:
        return PyLong_FromLong((int16_t)read_u16(at));
    case UINT16:
        return PyLong_FromLong(read_u16(at));
    case INT32:
        return PyLong_FromLong((int32_t)read_u32(at));
    case INT64:
        return PyLong_FromLongLong((int64_t)read_u64(at));
    case FLOAT64:
        return read_float(at);
    default:
        return recall(reader, type, at, size);
    }
}

/* decode(data, offset, budget) -> (message, end), or None where the input is irregular. */
PyObject *program_decode(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    const Program *program = (const Program *)self;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "decode takes data, offset and budget");
        return NULL;
    }
    Py_ssize_t offset = PyLong_AsSsize_t(args[1]), budget = PyLong_AsSsize_t(args[2]);
    Py_buffer view;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *message = NULL, *result = NULL;
    if (offset >= 0 && offset <= view.len && view.itemsize == 1) {
        const uint8_t *start = view.buf;
        Reader reader = {{start + offset, start + view.len}, start, args[0], program->uuid, budget,
                         SIGNALS_EVERY};
        message = read_struct(&reader, program->shape);
        if (message != NULL)
            result = Py_BuildValue("(Nn)", message, (Py_ssize_t)(reader.cursor.at - start));
    }
    PyBuffer_Release(&view);
    if (message == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return result;
}
