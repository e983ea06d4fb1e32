/* coterie._native: readers of logs and the codec of messages. Python code elsewhere does the same, slower. */
#include "codec.h"

static PyMethodDef methods[] = {
    {"find_places", find_places, METH_O, NULL},
    {"read_headers", read_headers, METH_VARARGS, NULL},
    {"join_checksums", join_checksums, METH_VARARGS, NULL},
    {"find_records", find_records, METH_VARARGS, NULL},
    {"read_commits", read_commits, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_program_type},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "coterie._native",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) {
    return PyModuleDef_Init(&definition);
}
