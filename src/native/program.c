/* Programs: parsed once from the tuples of coterie.protocol.program, and freed with their Python object. */
#include "codec.h"

static Shape *parse_shape(PyObject *tuple);
static void free_shape(Shape *shape);

static void free_type(Type *type) {
    if (type->shape != NULL)
        free_shape(type->shape);
    if (type->element != NULL)
        free_type(type->element);
    for (int index = 0; type->recent != NULL && index < RECENT; index++)
        Py_XDECREF(type->recent->places[index].object);
    PyMem_Free(type->recent);
    PyMem_Free(type->element);
}

static void free_fields(Fields *fields) {
    for (Py_ssize_t index = 0; index < fields->count; index++) {
        Py_XDECREF(fields->at[index].missing);
        free_type(&fields->at[index].type);
    }
    PyMem_Free(fields->at);
}

static void free_shape(Shape *shape) {
    free_fields(&shape->plain);
    free_fields(&shape->tagged);
    free_fields(&shape->absent);
    Py_XDECREF((PyObject *)shape->cls);
    PyMem_Free(shape);
}

static void *allocate(size_t size) {
    void *memory = PyMem_Calloc(1, size);
    return memory != NULL ? memory : PyErr_NoMemory();
}

/* -- slots ----------------------------------------------------------------------------------------- */

/* Whether the class has an attribute with this number. */
static int has_number(PyObject *cls, const char *name, Py_ssize_t expected) {
    PyObject *value = PyObject_GetAttrString(cls, name);
    Py_ssize_t number = value != NULL ? PyLong_AsSsize_t(value) : -1;
    Py_XDECREF(value);
    return !PyErr_Occurred() && number == expected;
}

/* Objects of the class must be slots and nothing else, since they are made without calling the class. */
static int check_class(PyObject *cls, Py_ssize_t slots) {
    Py_ssize_t size = (Py_ssize_t)sizeof(PyObject) + slots * (Py_ssize_t)sizeof(PyObject *);
    if (PyType_Check(cls) && !(PyType_GetFlags((PyTypeObject *)cls) & Py_TPFLAGS_HAVE_GC) &&
        has_number(cls, "__basicsize__", size) && has_number(cls, "__itemsize__", 0) &&
        has_number(cls, "__dictoffset__", 0) && has_number(cls, "__weakrefoffset__", 0))
        return 1;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%R is not laid out as slots", cls);
    return 0;
}

/* Where the probe, an object of the class, has the value; 0 with an error if it is not found. */
static Py_ssize_t find_slot(PyObject *probe, PyObject *value, Py_ssize_t size) {
    for (Py_ssize_t at = (Py_ssize_t)sizeof(PyObject); at < size; at += (Py_ssize_t)sizeof(PyObject *))
        if (*(PyObject **)((char *)probe + at) == value)
            return at;
    PyErr_Format(PyExc_TypeError, "%R keeps no value in a slot", Py_TYPE(probe));
    return 0;
}

/* -- parsing --------------------------------------------------------------------------------------- */

static int parse_type(PyObject *tuple, Type *type) {
    int kind;
    long long least;
    PyObject *inner;
    if (!PyArg_ParseTuple(tuple, "CpppLO", &kind, &type->nullable, &type->compact, &type->tagged, &least,
                          &inner))
        return 0;
    type->kind = (Kind)kind;
    type->least = least;
    switch (type->kind) {
    case TEXT:
    case UUID:
        if ((type->recent = allocate(sizeof(Recent))) == NULL)
            return 0;
        type->recent->credit = CREDIT;
        return 1;
    case STRUCT:
        return (type->shape = parse_shape(inner)) != NULL;
    case ARRAY:
        if (least < 1)
            break;
        return (type->element = allocate(sizeof(Type))) != NULL && parse_type(inner, type->element);
    case BOOL:
    case INT8:
    case INT16:
    case UINT16:
    case INT32:
    case INT64:
    case FLOAT64:
    case BLOB:
    case RECORDS:
    case ENCODED:
        return 1;
    }
    PyErr_Format(PyExc_TypeError, "%R is not a type", tuple);
    return 0;
}

/* Fields as (index, tag, default, type) into `fields`; the index is that of the value in `values`. */
static int parse_fields(PyObject *tuple, PyObject *probe, PyObject *values, Shape *shape, Fields *fields) {
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count < 0 || (fields->at = allocate((size_t)(count + 1) * sizeof(Field))) == NULL)
        return 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        Field *field = &fields->at[fields->count++];
        Py_ssize_t number;
        unsigned int tag;
        PyObject *missing, *type, *value;
        if (!PyArg_ParseTuple(PyTuple_GetItem(tuple, index), "nIOO", &number, &tag, &missing, &type))
            return 0;
        field->tag = tag;
        field->missing = Py_NewRef(missing);
        if ((value = PyTuple_GetItem(values, number)) == NULL ||
            (field->slot = find_slot(probe, value, shape->size)) == 0 || !parse_type(type, &field->type))
            return 0;
    }
    return 1;
}

static Shape *parse_shape(PyObject *tuple) {
    PyObject *probe, *values, *plain, *tagged, *absent;
    Shape *shape = allocate(sizeof(Shape));
    if (shape == NULL || !PyArg_ParseTuple(tuple, "pOO!OOOn", &shape->flexible, &probe, &PyTuple_Type, &values,
                                           &plain, &tagged, &absent, &shape->refused))
        goto failed;
    shape->cls = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(probe));
    shape->size = (Py_ssize_t)sizeof(PyObject) + PyTuple_Size(values) * (Py_ssize_t)sizeof(PyObject *);
    if (!check_class((PyObject *)shape->cls, PyTuple_Size(values)) ||
        !parse_fields(plain, probe, values, shape, &shape->plain) ||
        !parse_fields(tagged, probe, values, shape, &shape->tagged) ||
        !parse_fields(absent, probe, values, shape, &shape->absent))
        goto failed;
    if (shape->plain.count + shape->tagged.count + shape->absent.count == PyTuple_Size(values) &&
        shape->refused >= 0 && shape->refused <= shape->absent.count && shape->tagged.count < MOST_TAGS)
        return shape;
    PyErr_Format(PyExc_TypeError, "%R has other fields", shape->cls);
failed:
    if (shape != NULL)
        free_shape(shape);
    return NULL;
}

/* -- the Python type ------------------------------------------------------------------------------- */

static PyObject *program_new(PyTypeObject *cls, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *shape, *uuid;
    if (!PyArg_ParseTuple(args, "O!O!:Program", &PyTuple_Type, &shape, &PyType_Type, &uuid))
        return NULL;
    Program *program = PyObject_New(Program, cls);
    if (program == NULL)
        return NULL;
    program->uuid = Py_NewRef(uuid);
    program->last_size = 0;
    program->shape = parse_shape(shape);
    if (program->shape == NULL)
        Py_CLEAR(program);
    return (PyObject *)program;
}

static void program_dealloc(PyObject *self) {
    Program *program = (Program *)self;
    PyTypeObject *cls = Py_TYPE(self);
    if (program->shape != NULL)
        free_shape(program->shape);
    Py_DECREF(program->uuid);
    PyObject_Free(self);
    Py_DECREF(cls);
}

static PyMethodDef program_methods[] = {
    {"decode", (PyCFunction)(void (*)(void))program_decode, METH_FASTCALL, NULL},
    {"encode", (PyCFunction)(void (*)(void))program_encode, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot program_slots[] = {
    {Py_tp_new, program_new},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_methods, program_methods},
    {0, NULL},
};

static PyType_Spec program_spec = {
    .name = "coterie._native.Program",
    .basicsize = sizeof(Program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = program_slots,
};

int add_program_type(PyObject *module) {
    PyObject *cls = PyType_FromModuleAndSpec(module, &program_spec, NULL);
    int added = cls == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)cls);
    Py_XDECREF(cls);
    return added;
}
