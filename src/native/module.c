/* coterie._native: what vectors cannot do well, in C. Everything here is done elsewhere in Python, too. */
#include "native.h"

static PyMethodDef methods[] = {
    {"find_places", find_places, METH_O, NULL},
    {"read_headers", read_headers, METH_VARARGS, NULL},
    {"join_checksums", join_checksums, METH_VARARGS, NULL},
    {"find_records", find_records, METH_VARARGS, NULL},
    {"read_commits", read_commits, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "coterie._native",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void) {
    return PyModuleDef_Init(&definition);
}
