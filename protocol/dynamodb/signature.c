#include "protocol/dynamodb/signature.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

enum {
    SHOWN_MAX = 64,
    SCOPE_PARTS = 5,
    SIGNED_MAX = 64,     /* header fields in one signature */
    FIELD_NAME_MAX = 64, /* of one that is signed */
    TIME_SIZE = 16,      /* YYYYMMDDTHHMMSSZ */
    DATE_SIZE = 8,
};

/* What a request says of its signature. */
struct claim {
    struct bytes header; /* Authorization */
    struct bytes algorithm, credential, signed_names, signature;
    struct bytes time, payload_hash, scope[SCOPE_PARTS]; /* key id, date, region, service, end */
};

static int shown(struct bytes bytes)
{
    return (int)(bytes.size < SHOWN_MAX ? bytes.size : SHOWN_MAX);
}

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes_equal(bytes, bytes_text(text));
}

static bool is_field(struct bytes name, const char *text)
{
    return name.size == strlen(text) && strncasecmp((const char *)name.data, text, name.size) == 0;
}

/* ---- reading ---- */

/* Takes what is before the next of `separators` from the front. */
static struct bytes take_part(struct bytes *rest, const char *separators)
{
    size_t size = 0;
    while (size < rest->size && strchr(separators, rest->data[size]) == NULL)
        size++;
    struct bytes part = bytes_of(rest->data, size);
    size_t passed = size + (size < rest->size);
    *rest = bytes_of(rest->data + passed, rest->size - passed);
    return part;
}

static void read_parameter(struct bytes parameter, struct claim *claim)
{
    struct bytes value = parameter;
    struct bytes name = take_part(&value, "=");
    if (is_text(name, "Credential"))
        claim->credential = value;
    else if (is_text(name, "SignedHeaders"))
        claim->signed_names = value;
    else if (is_text(name, "Signature"))
        claim->signature = value;
}

static void read_claim(const struct http1_message *message, struct claim *claim)
{
    struct bytes rest = BYTES_NONE, name, value;
    *claim = (struct claim){.header = BYTES_NONE};
    while (http1_next_field(message->head, &rest, &name, &value)) {
        if (is_field(name, "authorization"))
            claim->header = value;
        else if (is_field(name, "x-amz-date"))
            claim->time = value;
        else if (is_field(name, "x-amz-content-sha256"))
            claim->payload_hash = value;
    }
    struct bytes parameters = claim->header;
    if (!bytes_given(parameters))
        return;
    claim->algorithm = take_part(&parameters, " ");
    while (parameters.size != 0)
        read_parameter(take_part(&parameters, ", "), claim);
}

/* ---- the form of it ---- */

static enum status check_parameters(const struct claim *claim, struct error *error)
{
    const struct {
        struct bytes value;
        const char *name;
    } wanted[] = {{claim->credential, "Credential"},
                  {claim->signature, "Signature"},
                  {claim->signed_names, "SignedHeaders"}};
    char complaint[sizeof error->text] = "";
    size_t size = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (wanted[i].value.size == 0)
            size +=
                (size_t)snprintf(complaint + size, sizeof complaint - size,
                                 "Authorization header requires '%s' parameter. ", wanted[i].name);
    if (claim->time.size == 0)
        (void)snprintf(complaint + size, sizeof complaint - size,
                       "Authorization header requires existence of either a 'X-Amz-Date' or a "
                       "'Date' header. ");
    if (complaint[0] == '\0')
        return STATUS_OK;
    return error_set(error, STATUS_INCOMPLETE_SIGNATURE, "%sAuthorization=%.*s", complaint,
                     shown(claim->header), (const char *)claim->header.data);
}

/* Seconds since 1970. False if it is no time. */
static bool read_time(struct bytes text, int64_t *out)
{
    static const char form[] = "ddddddddTddddddZ";
    static const uint8_t starts[] = {0, 4, 6, 9, 11, 13};
    int parts[6];
    if (text.size != TIME_SIZE)
        return false;
    for (size_t i = 0; i < TIME_SIZE; i++)
        if (form[i] == 'd' ? isdigit(text.data[i]) == 0 : text.data[i] != (uint8_t)form[i])
            return false;
    for (size_t i = 0; i < 6; i++) {
        parts[i] = 0;
        for (size_t at = starts[i]; at < starts[i] + (size_t)(i == 0 ? 4 : 2); at++)
            parts[i] = 10 * parts[i] + text.data[at] - '0';
    }
    struct tm wanted = {.tm_year = parts[0] - 1900,
                        .tm_mon = parts[1] - 1,
                        .tm_mday = parts[2],
                        .tm_hour = parts[3],
                        .tm_min = parts[4],
                        .tm_sec = parts[5]};
    struct tm real = wanted; /* a 31st of June becomes a first of July */
    *out = timegm(&real);
    return real.tm_mon == wanted.tm_mon && real.tm_mday == wanted.tm_mday &&
           real.tm_hour == wanted.tm_hour && real.tm_min == wanted.tm_min &&
           real.tm_sec == wanted.tm_sec;
}

static void print_time(int64_t unix_s, char out[TIME_SIZE + 1])
{
    time_t time = (time_t)unix_s;
    struct tm parts;
    (void)gmtime_r(&time, &parts);
    (void)strftime(out, TIME_SIZE + 1, "%Y%m%dT%H%M%SZ", &parts);
}

static enum status check_time(const struct claim *claim, uint64_t unix_s, struct error *error)
{
    int64_t now = (int64_t)unix_s, then = 0;
    if (!read_time(claim->time, &then))
        return error_set(error, STATUS_INCOMPLETE_SIGNATURE,
                         "Date must be in ISO-8601 'basic format'. Got '%.*s'. See "
                         "http://en.wikipedia.org/wiki/ISO_8601",
                         shown(claim->time), (const char *)claim->time.data);
    bool is_old = then < now - SIGNATURE_WINDOW_S;
    if (!is_old && then <= now + SIGNATURE_WINDOW_S)
        return STATUS_OK;
    char limit[TIME_SIZE + 1], current[TIME_SIZE + 1];
    print_time(is_old ? now - SIGNATURE_WINDOW_S : now + SIGNATURE_WINDOW_S, limit);
    print_time(now, current);
    return error_set(error, STATUS_INVALID_SIGNATURE, "Signature %s: %.*s is %s %s (%s %c %d min.)",
                     is_old ? "expired" : "not yet current", TIME_SIZE,
                     (const char *)claim->time.data,
                     is_old ? "now earlier than" : "still later than", limit, current,
                     is_old ? '-' : '+', SIGNATURE_WINDOW_S / 60);
}

/* Names are small letters in ascending order, so that none comes twice, and the ones that decide
 * what is asked are among them. */
static enum status check_signed_names(const struct claim *claim, struct error *error)
{
    bool has_host = false, has_target = false, has_time = false;
    struct bytes rest = claim->signed_names, before = BYTES_NONE;
    size_t count = 0;
    while (rest.size != 0) {
        struct bytes name = take_part(&rest, ";");
        if (name.size > FIELD_NAME_MAX || ++count > SIGNED_MAX ||
            (bytes_given(before) && bytes_compare(before, name) >= 0))
            return error_set(error, STATUS_INVALID_SIGNATURE,
                             "SignedHeaders must be up to %d names of up to %d bytes, in ascending "
                             "order",
                             SIGNED_MAX, FIELD_NAME_MAX);
        has_host |= is_text(name, "host");
        has_target |= is_text(name, "x-amz-target");
        has_time |= is_text(name, "x-amz-date");
        before = name;
    }
    if (has_host && has_target && has_time)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_SIGNATURE,
                     "'%s' must be a 'SignedHeader' in the AWS Authorization.",
                     !has_host     ? "Host"
                     : !has_target ? "X-Amz-Target"
                                   : "X-Amz-Date");
}

static enum status check_scope(struct claim *claim, struct error *error)
{
    struct bytes rest = claim->credential;
    size_t count = 0;
    for (; rest.size != 0 && count < SCOPE_PARTS; count++) {
        claim->scope[count] = take_part(&rest, "/");
        if (claim->scope[count].size > SIGV4_PART_MAX)
            break;
    }
    if (count != SCOPE_PARTS || rest.size != 0)
        return error_set(error, STATUS_INCOMPLETE_SIGNATURE,
                         "Credential must have exactly 5 slash-delimited elements, e.g. "
                         "keyid/date/region/service/term, got '%.*s'",
                         shown(claim->credential), (const char *)claim->credential.data);
    const struct bytes *scope = claim->scope;
    if (!is_text(scope[3], "dynamodb"))
        return error_set(error, STATUS_INVALID_SIGNATURE,
                         "Credential should be scoped to correct service: 'dynamodb'. ");
    if (!is_text(scope[4], "aws4_request"))
        return error_set(error, STATUS_INVALID_SIGNATURE,
                         "Credential should be scoped with a valid terminator: 'aws4_request', not "
                         "'%.*s'. ",
                         shown(scope[4]), (const char *)scope[4].data);
    if (!bytes_equal(scope[1], bytes_of(claim->time.data, DATE_SIZE)))
        return error_set(error, STATUS_INVALID_SIGNATURE,
                         "Date in Credential scope does not match YYYYMMDD from ISO-8601 version "
                         "of date from HTTP: '%.*s' != '%.*s', from '%.*s'.",
                         shown(scope[1]), (const char *)scope[1].data, DATE_SIZE,
                         (const char *)claim->time.data, TIME_SIZE, (const char *)claim->time.data);
    return STATUS_OK;
}

static enum status check_form(const struct claim *claim, uint64_t unix_s, struct error *error)
{
    if (!bytes_begin_with(claim->algorithm, BYTES_LITERAL("AWS4-")))
        return error_set(error, STATUS_MISSING_TOKEN, "%s", "");
    enum status status = check_parameters(claim, error);
    if (status == STATUS_OK)
        status = check_time(claim, unix_s, error);
    if (status == STATUS_OK)
        status = check_signed_names(claim, error);
    if (status == STATUS_OK && !is_text(claim->algorithm, "AWS4-HMAC-SHA256"))
        status = error_set(error, STATUS_INCOMPLETE_SIGNATURE,
                           "Unsupported AWS 'algorithm': '%.*s' (only AWS4-HMAC-SHA256 for now). ",
                           shown(claim->algorithm), (const char *)claim->algorithm.data);
    return status;
}

/* ---- the canonical request ---- */

struct canonical {
    uint8_t *data;
    size_t size, capacity;
};

/* Everything that is put is in the head, once, but for a few separators: the room is enough. */
static void put(struct canonical *out, struct bytes bytes)
{
    if (bytes.size > out->capacity - out->size)
        bytes.size = out->capacity - out->size;
    if (bytes.size != 0)
        memcpy(out->data + out->size, bytes.data, bytes.size);
    out->size += bytes.size;
}

/* Several blanks in a value count as one. */
static void put_value(struct canonical *out, struct bytes value)
{
    for (size_t at = 0; at < value.size; at++) {
        bool is_more = value.data[at] == ' ' && at != 0 && value.data[at - 1] == ' ';
        put(out, bytes_of(value.data + at, is_more ? 0 : 1));
    }
}

/* A field's values, in the order in which they came. */
static void put_field(struct canonical *out, struct bytes head, struct bytes wanted)
{
    struct bytes rest = BYTES_NONE, name, value;
    bool is_first = true;
    put(out, wanted);
    put(out, BYTES_LITERAL(":"));
    while (http1_next_field(head, &rest, &name, &value)) {
        if (name.size != wanted.size ||
            strncasecmp((const char *)name.data, (const char *)wanted.data, name.size) != 0)
            continue;
        put(out, is_first ? BYTES_LITERAL("") : BYTES_LITERAL(","));
        put_value(out, value);
        is_first = false;
    }
    put(out, BYTES_LITERAL("\n"));
}

/* A request of this API is a POST to / without a query: another one is signed otherwise. */
static bool make_canonical(const struct claim *claim, const struct http1_message *message,
                           struct bytes hash, struct arena *arena, struct bytes *out)
{
    size_t head_size = message->head.size < HTTP1_HEAD_MAX ? message->head.size : HTTP1_HEAD_MAX;
    size_t capacity = 2 * head_size + 2 * SIGV4_HEX + 4 * SIGNED_MAX;
    struct canonical canonical = {.data = arena_alloc(arena, capacity), .capacity = capacity};
    if (canonical.data == NULL)
        return false;
    put(&canonical, BYTES_LITERAL("POST\n/\n\n"));
    struct bytes rest = claim->signed_names;
    while (rest.size != 0)
        put_field(&canonical, message->head, take_part(&rest, ";"));
    put(&canonical, BYTES_LITERAL("\n"));
    put(&canonical, claim->signed_names);
    put(&canonical, BYTES_LITERAL("\n"));
    put(&canonical, hash);
    *out = bytes_of(canonical.data, canonical.size);
    return true;
}

/* ---- checking ---- */

static const struct access_key *find_key(const struct access_keys *keys, struct bytes id)
{
    for (size_t i = 0; i < keys->count; i++)
        if (bytes_equal(keys->keys[i].id, id))
            return &keys->keys[i];
    return NULL;
}

static enum status check_signature(const struct claim *claim, const struct access_key *key,
                                   const struct http1_message *message, struct arena *arena,
                                   struct error *error)
{
    char hash[SIGV4_HEX], expected[SIGV4_HEX];
    struct bytes canonical;
    struct sigv4_scope scope = {claim->scope[1], claim->scope[2], claim->scope[3]};
    if (!sigv4_hash(message->body, hash) ||
        !make_canonical(claim, message, bytes_of(hash, SIGV4_HEX), arena, &canonical) ||
        !sigv4_sign(key->secret, &scope, claim->time, canonical, expected))
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    bool is_body_right = !bytes_given(claim->payload_hash) ||
                         sigv4_equal(claim->payload_hash, bytes_of(hash, SIGV4_HEX));
    if (!sigv4_equal(claim->signature, bytes_of(expected, SIGV4_HEX)) || !is_body_right)
        return error_set(error, STATUS_INVALID_SIGNATURE, "%s", "");
    return STATUS_OK;
}

enum status signature_check(const struct access_keys *keys, uint64_t unix_s,
                            const struct http1_message *message, struct arena *arena,
                            struct error *error)
{
    struct claim claim;
    read_claim(message, &claim);
    enum status status = check_form(&claim, unix_s, error);
    if (status == STATUS_OK)
        status = check_scope(&claim, error);
    if (status != STATUS_OK)
        return status;
    const struct access_key *key = find_key(keys, claim.scope[0]);
    if (key == NULL)
        return error_set(error, STATUS_UNRECOGNIZED_CLIENT, "%s", "");
    return check_signature(&claim, key, message, arena, error);
}
