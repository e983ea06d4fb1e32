/* The codec of messages: programs, made from the declarations, that decode.c and encode.c run. */
#ifndef COTERIE_CODEC_H
#define COTERIE_CODEC_H

#include "native.h"

/* Types of values. Numbers have the letters of Python's `struct`. */
typedef enum {
    BOOL = '?',
    INT8 = 'b',
    INT16 = 'h',
    UINT16 = 'H',
    INT32 = 'i',
    INT64 = 'q',
    FLOAT64 = 'd',
    UUID = 'u',
    TEXT = 's',
    BLOB = 'y',
    RECORDS = 'r',
    STRUCT = 'S',
    ARRAY = 'a',
    ENCODED = 'e', /* an element of an array that was encoded before */
} Kind;

enum { LONGEST_STRING = 0x7FFF, MOST_TAGS = 128, UUID_BYTES = 16, SIGNALS_EVERY = 100000 };

/* Objects that were decoded last, by their bytes; `bytes` are owned by the object. */
enum { RECENT = 16, LONGEST_RECENT = 48, CREDIT = 64, ASLEEP = 256 };

typedef struct {
    PyObject *object;
    const void *bytes;
    Py_ssize_t size;
} Place;

/* Cache of one field's values: a value that repeats is one object. It sleeps while values do not repeat. */
typedef struct {
    int credit, asleep;
    Place places[RECENT];
} Recent;

typedef struct Shape Shape;

typedef struct Type {
    Kind kind;
    int nullable, compact, tagged;
    int64_t least;        /* of an array: the fewest bytes that an element takes */
    struct Type *element; /* of an array */
    Shape *shape;         /* of a struct */
    Recent *recent;       /* of a text or UUID */
} Type;

typedef struct {
    Py_ssize_t slot; /* offset of the value in the object */
    uint32_t tag;
    PyObject *missing; /* the value where the version or the bytes have none */
    Type type;
} Field;

typedef struct {
    Py_ssize_t count;
    Field *at;
} Fields;

/* A struct in one version. */
struct Shape {
    PyTypeObject *cls;
    Py_ssize_t size;
    int flexible;
    Fields plain, tagged, absent;
    Py_ssize_t refused; /* so many of `absent`, the first ones, may not be encoded with another value */
};

typedef struct {
    PyObject_HEAD
    Shape *shape;
    PyObject *uuid;
    Py_ssize_t last_size; /* of the last encoded message */
} Program;

static inline PyObject **slot_of(PyObject *object, const Field *field) {
    return (PyObject **)((char *)object + field->slot);
}

PyObject *program_decode(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *program_encode(PyObject *self, PyObject *const *args, Py_ssize_t count);
int add_program_type(PyObject *module);

#endif
