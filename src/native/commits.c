/* Committed offsets: keys and values of records as the columns of Arrow. */
#include "native.h"

enum { NEWEST_KEY = 1, KEY_OVERHEAD = 10, ID_BYTES = 16, ID_TEXT = 22, WIDE = 32 };
enum { TOMBSTONE = -1, LONGEST = 0x7FFF };

typedef struct {
    const uint8_t *at;
    int32_t size;
} Text;

/* A commit as it lies in the buffer. */
typedef struct {
    Text group, topic, metadata;
    int64_t offset, time, expire;
    int32_t partition, leader_epoch;
    int16_t key_version, version;
    const uint8_t *topic_id; /* NULL if there is none */
} Commit;

typedef enum { OTHER, ODD, PLAIN } Kind;

static inline Kind read_key(const uint8_t *key, int64_t length, Commit *commit) {
    if (length < 2 || read_u16(key) > NEWEST_KEY)
        return OTHER;
    if (length < KEY_OVERHEAD)
        return ODD;
    commit->key_version = (int16_t)read_u16(key);
    int32_t group = read_u16(key + 2);
    if (group > LONGEST || group > length - KEY_OVERHEAD)
        return ODD;
    const uint8_t *rest = key + 4 + group;
    int32_t topic = read_u16(rest);
    /* To the byte: a length that lies would point into another record. */
    if (topic > LONGEST || length != KEY_OVERHEAD + group + topic)
        return ODD;
    commit->group = (Text){key + 4, group};
    commit->topic = (Text){rest + 2, topic};
    commit->partition = (int32_t)read_u32(rest + 2 + topic);
    return PLAIN;
}

/* A string of versions up to 3, with two bytes of length before it. */
static inline int read_text(Cursor *cursor, Text *text) {
    if (cursor->end - cursor->at < 2)
        return 0;
    int32_t size = read_u16(cursor->at);
    cursor->at += 2;
    if (size > LONGEST || size > cursor->end - cursor->at)
        return 0;
    *text = (Text){cursor->at, size};
    cursor->at += size;
    return 1;
}

/* A string of version 4, with one more than its length before it; 0 would be null. */
static inline int read_compact_text(Cursor *cursor, Text *text) {
    const uint8_t *from = cursor->at;
    uint64_t coded;
    if (!read_unsigned_varint(cursor, 5, &coded) || coded == 0 || coded - 1 > LONGEST)
        return 0;
    /* As short as can be: another way to write a number is not ours to judge. */
    if ((cursor->at - from > 1 && coded < 1 << 7) || (cursor->at - from > 2 && coded < 1 << 14))
        return 0;
    int32_t size = (int32_t)coded - 1;
    if (size > cursor->end - cursor->at)
        return 0;
    *text = (Text){cursor->at, size};
    cursor->at += size;
    return 1;
}

/* Two words each: memcmp would be called, which takes longer than what it does. */
static inline int same_id(const uint8_t *one, const uint8_t *other) {
    uint64_t a[2], b[2];
    memcpy(a, one, ID_BYTES);
    memcpy(b, other, ID_BYTES);
    return a[0] == b[0] && a[1] == b[1];
}

/* Behind the metadata of version 4: no tagged field, or the topic id, which is number 0. */
static inline int read_tags(Cursor *cursor, Commit *commit) {
    int64_t left = cursor->end - cursor->at;
    if (left == 1)
        return cursor->at[0] == 0;
    if (left != 3 + ID_BYTES || cursor->at[0] != 1 || cursor->at[1] != 0 || cursor->at[2] != ID_BYTES)
        return 0;
    static const uint8_t none[ID_BYTES];
    if (!same_id(cursor->at + 3, none))
        commit->topic_id = cursor->at + 3;
    return 1;
}

static inline Kind read_value(const uint8_t *value, int64_t length, Commit *commit) {
    commit->metadata = (Text){value, 0};
    commit->offset = commit->time = commit->expire = commit->leader_epoch = -1;
    commit->topic_id = NULL;
    commit->version = TOMBSTONE;
    if (length < 0)
        return PLAIN;
    if (length < 10)
        return ODD;
    int version = (int16_t)read_u16(value);
    Cursor cursor = {value + 10, value + length};
    /* The oldest type of key has only the oldest value. */
    if (version < 0 || version > 4 || (commit->key_version != NEWEST_KEY && version > 0))
        return ODD;
    commit->version = (int16_t)version;
    commit->offset = (int64_t)read_u64(value + 2);
    if (version >= 3) {
        if (length < 14)
            return ODD;
        commit->leader_epoch = (int32_t)read_u32(cursor.at);
        cursor.at += 4;
    }
    if (!(version == 4 ? read_compact_text(&cursor, &commit->metadata)
                       : read_text(&cursor, &commit->metadata)))
        return ODD;
    if (cursor.end - cursor.at < 8)
        return ODD;
    commit->time = (int64_t)read_u64(cursor.at);
    cursor.at += 8;
    if (version == 4)
        return read_tags(&cursor, commit) ? PLAIN : ODD;
    if (version == 1 && cursor.end - cursor.at == 8) {
        commit->expire = (int64_t)read_u64(cursor.at);
        return PLAIN;
    }
    return version != 1 && cursor.at == cursor.end ? PLAIN : ODD;
}

/* -- columns --------------------------------------------------------------------------------------- */

/* Where a column is written; NULL if nobody wants it. All are as long as there are rows. */
typedef struct {
    int64_t *kept, *odd, *offset, *time, *expire;
    int32_t *partition, *leader_epoch;
    int16_t *key_version, *version;
} Numbers;

/* Strings of Arrow: where each begins, and the bytes of all; `room` is how many there may be. */
typedef struct {
    int32_t *offsets;
    uint8_t *data;
    int64_t used, room;
} Texts;

typedef struct {
    Numbers numbers;
    Texts group, topic, metadata, topic_id;
    Py_ssize_t count, odd_count;
    uint8_t high; /* all bytes of all texts or-ed: below 128 if they are ASCII */
    uint8_t last_id[ID_BYTES], last_text[ID_TEXT];
} Columns;

static inline uint8_t or_bytes(const uint8_t *at, int64_t size) {
    uint8_t all = 0;
    for (int64_t index = 0; index < size; index++)
        all |= at[index];
    return all;
}

/* Text is short: mostly one wide copy, where neither side ends too soon for it. */
static inline int add_text(Columns *columns, Texts *texts, Text text, const uint8_t *end) {
    if (texts->offsets == NULL) {
        columns->high |= or_bytes(text.at, text.size);
        return 1;
    }
    if (text.size > texts->room - texts->used)
        return 0;
    uint8_t *to = texts->data + texts->used;
    if (text.size <= WIDE && texts->room - texts->used >= WIDE && end - text.at >= WIDE)
        memcpy(to, text.at, WIDE);
    else
        memcpy(to, text.at, (size_t)text.size);
    texts->used += text.size;
    texts->offsets[columns->count + 1] = (int32_t)texts->used;
    return 1;
}

/* Sixteen bytes as Kafka prints them: base64 for addresses, without padding. */
static void spell_id(const uint8_t *id, uint8_t *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (int third = 0; third < ID_BYTES / 3; third++, id += 3, text += 4) {
        text[0] = (uint8_t)letters[id[0] >> 2];
        text[1] = (uint8_t)letters[(id[0] & 3) << 4 | id[1] >> 4];
        text[2] = (uint8_t)letters[(id[1] & 15) << 2 | id[2] >> 6];
        text[3] = (uint8_t)letters[id[2] & 63];
    }
    text[0] = (uint8_t)letters[id[0] >> 2];
    text[1] = (uint8_t)letters[(id[0] & 3) << 4];
}

/* No id is an empty string, which nothing else is. */
static inline int add_id(Columns *columns, const uint8_t *id) {
    Texts *texts = &columns->topic_id;
    if (texts->offsets == NULL)
        return 1;
    if (id != NULL) {
        if (texts->room - texts->used < ID_TEXT)
            return 0;
        /* Commits of one topic mostly stand together. */
        if (!same_id(id, columns->last_id)) {
            memcpy(columns->last_id, id, ID_BYTES);
            spell_id(id, columns->last_text);
        }
        memcpy(texts->data + texts->used, columns->last_text, ID_TEXT);
        texts->used += ID_TEXT;
    }
    texts->offsets[columns->count + 1] = (int32_t)texts->used;
    return 1;
}

static inline void put64(int64_t *column, Py_ssize_t at, int64_t value) {
    if (column != NULL)
        column[at] = value;
}

static inline void put32(int32_t *column, Py_ssize_t at, int32_t value) {
    if (column != NULL)
        column[at] = value;
}

static inline void put16(int16_t *column, Py_ssize_t at, int16_t value) {
    if (column != NULL)
        column[at] = value;
}

static inline int add_commit(Columns *columns, Py_ssize_t row, const Commit *commit,
                             const uint8_t *end) {
    Numbers *numbers = &columns->numbers;
    Py_ssize_t at = columns->count;
    if (!add_text(columns, &columns->group, commit->group, end) ||
        !add_text(columns, &columns->topic, commit->topic, end) ||
        !add_text(columns, &columns->metadata, commit->metadata, end) ||
        !add_id(columns, commit->topic_id))
        return 0;
    put64(numbers->kept, at, row);
    put16(numbers->key_version, at, commit->key_version);
    put16(numbers->version, at, commit->version);
    put32(numbers->partition, at, commit->partition);
    put64(numbers->offset, at, commit->offset);
    put32(numbers->leader_epoch, at, commit->leader_epoch);
    put64(numbers->time, at, commit->time);
    put64(numbers->expire, at, commit->expire);
    columns->count++;
    return 1;
}

/* Where keys and values are; a length of -1 is null. */
typedef struct {
    const int64_t *key_start, *key_length, *value_start, *value_length;
} Places;

static inline int within(int64_t start, int64_t length, int64_t size) {
    return start >= 0 && start <= size && length <= size - start;
}

static int read_rows(const Py_buffer *data, const Places *places, Py_ssize_t rows, Columns *columns) {
    const uint8_t *bytes = data->buf, *end = bytes + data->len;
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t key = places->key_start[row], value = places->value_start[row];
        if (!within(key, places->key_length[row], data->len) ||
            !within(value, places->value_length[row], data->len))
            return 0;
        Commit commit;
        Kind kind = read_key(bytes + key, places->key_length[row], &commit);
        if (kind == PLAIN)
            kind = read_value(bytes + value, places->value_length[row], &commit);
        if (kind == ODD)
            columns->numbers.odd[columns->odd_count++] = row;
        else if (kind == PLAIN && !add_commit(columns, row, &commit, end))
            return 0;
    }
    Texts *all[] = {&columns->group, &columns->topic, &columns->metadata};
    for (int index = 0; index < 3; index++)
        if (all[index]->offsets != NULL)
            columns->high |= or_bytes(all[index]->data, all[index]->used);
    return 1;
}

/* -- the call -------------------------------------------------------------------------------------- */

enum { INPUTS = 5, NUMBERS = 9, TEXTS = 4, BUFFERS = INPUTS + NUMBERS + 2 * TEXTS };

static Texts texts_of(const Py_buffer *offsets, const Py_buffer *data) {
    if (offsets->len == 0)
        return (Texts){NULL, NULL, 0, 0};
    ((int32_t *)offsets->buf)[0] = 0;
    return (Texts){offsets->buf, data->buf, 0, data->len < INT32_MAX ? data->len : INT32_MAX};
}

static void *wanted(const Py_buffer *buffer) {
    return buffer->len == 0 ? NULL : buffer->buf;
}

/* Whether each buffer has room for all rows, or none. */
static int have_room(const Py_buffer *buffers, Py_ssize_t rows) {
    static const Py_ssize_t sizes[NUMBERS] = {8, 8, 8, 8, 8, 4, 4, 2, 2};
    for (int index = 1; index < INPUTS; index++)
        if (buffers[index].len != rows * 8)
            return 0;
    for (int index = 0; index < NUMBERS; index++)
        if (buffers[INPUTS + index].len != 0 && buffers[INPUTS + index].len < rows * sizes[index])
            return 0;
    for (int index = INPUTS + NUMBERS; index < BUFFERS; index += 2)
        if (buffers[index].len != 0 && buffers[index].len < (rows + 1) * 4)
            return 0;
    return buffers[INPUTS + 1].len != 0 || rows == 0;
}

static PyObject *refuse(void) {
    PyErr_SetString(PyExc_ValueError, "a place outside of the buffer, or a column too small");
    return NULL;
}

static PyObject *read_into(const Py_buffer *b) {
    Py_ssize_t rows = b[1].len / 8;
    if (!have_room(b, rows))
        return refuse();
    const Py_buffer *n = b + INPUTS, *t = n + NUMBERS;
    Places places = {b[1].buf, b[2].buf, b[3].buf, b[4].buf};
    Columns columns = {
        .numbers = {wanted(&n[0]), wanted(&n[1]), wanted(&n[2]), wanted(&n[3]), wanted(&n[4]),
                    wanted(&n[5]), wanted(&n[6]), wanted(&n[7]), wanted(&n[8])},
        .group = texts_of(&t[0], &t[1]),
        .topic = texts_of(&t[2], &t[3]),
        .metadata = texts_of(&t[4], &t[5]),
        .topic_id = texts_of(&t[6], &t[7]),
    };
    if (!read_rows(&b[0], &places, rows, &columns))
        return refuse();
    return Py_BuildValue("nnLLLLi", columns.count, columns.odd_count, columns.group.used,
                         columns.topic.used, columns.metadata.used, columns.topic_id.used,
                         columns.high < 0x80);
}

PyObject *read_commits(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer buffers[BUFFERS];
    int opened = 0;
    PyObject *result = NULL;
    if (PyTuple_Size(args) != BUFFERS) {
        PyErr_Format(PyExc_TypeError, "%d buffers are wanted", BUFFERS);
        return NULL;
    }
    for (; opened < BUFFERS; opened++) {
        int flags = opened < INPUTS ? PyBUF_SIMPLE : PyBUF_WRITABLE;
        if (PyObject_GetBuffer(PyTuple_GetItem(args, opened), &buffers[opened], flags) < 0)
            break;
    }
    if (opened == BUFFERS)
        result = read_into(buffers);
    while (opened > 0)
        PyBuffer_Release(&buffers[--opened]);
    return result;
}
