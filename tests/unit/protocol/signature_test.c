/* Signature Version 4: AWS's own vector, requests as botocore 1.29 signs them, and every refusal.
 */
#include "protocol/dynamodb/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NOW = 1704067200, ARENA_MAX = 1 << 20 }; /* 2024-01-01 */

static const struct access_key the_keys[] = {
    {BYTES_LITERAL("OTHER"), BYTES_LITERAL("other")},
    {BYTES_LITERAL("AKIDEXAMPLE"), BYTES_LITERAL("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")},
};
static const struct access_keys keys = {the_keys, 2};

static void the_arithmetic_is_that_of_awss_own_vectors(void **state)
{
    (void)state;
    /* "get-vanilla" of the Signature Version 4 test suite. */
    struct sigv4_scope scope = {BYTES_LITERAL("20150830"), BYTES_LITERAL("us-east-1"),
                                BYTES_LITERAL("service")};
    char hex[SIGV4_HEX];
    assert_true(sigv4_sign(
        the_keys[1].secret, &scope, BYTES_LITERAL("20150830T123600Z"),
        BYTES_LITERAL("GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\n"
                      "host;x-amz-date\n"
                      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        hex));
    assert_memory_equal(hex, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
                        SIGV4_HEX);
    assert_true(sigv4_hash(BYTES_NONE, hex));
    assert_memory_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                        SIGV4_HEX);
    assert_true(sigv4_equal(BYTES_LITERAL("abc"), BYTES_LITERAL("abc")));
    assert_false(sigv4_equal(BYTES_LITERAL("abc"), BYTES_LITERAL("abd")));
    assert_false(sigv4_equal(BYTES_LITERAL("abc"), BYTES_LITERAL("ab")));
}

/* ---- whole requests ---- */

#define LINE(text) text "\r\n"
#define SCOPE      "20240101/us-east-1/dynamodb/aws4_request"
#define NAMES      "content-type;host;x-amz-date;x-amz-target"
#define SIGNATURE  "d3d1904c05f40fc0b3c52a68918c5c8559b532e06e085698e8716a9a086b136f"
#define AUTHORIZATION(credential, names, signature)                                                \
    LINE("Authorization: AWS4-HMAC-SHA256 Credential=" credential ", SignedHeaders=" names         \
         ", Signature=" signature)
#define FIELDS(time)                                                                               \
    LINE("Host: 127.0.0.1:8000")                                                                   \
    LINE("Content-Type: application/x-amz-json-1.0")                                               \
    LINE("X-Amz-Target: DynamoDB_20120810.ListTables") LINE("X-Amz-Date: " time)
#define RIGHT AUTHORIZATION("AKIDEXAMPLE/" SCOPE, NAMES, SIGNATURE)
#define TIME  "20240101T000000Z"

static enum status check(const char *fields, const char *body, uint64_t unix_s, struct error *error)
{
    char *text = NULL;
    struct wire_session session = {.frame_max = 1 << 16};
    struct http1_message message;
    struct arena arena;
    size_t used, needed;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    assert_true(asprintf(&text, "\r\nPOST / HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n%s", fields,
                         strlen(body), body) > 0);
    *error = (struct error){.text = ""};
    assert_int_equal(
        http1_read(&session, bytes_text(text), 1 << 16, &arena, &message, &used, &needed, error),
        HTTP1_WHOLE);
    enum status status = signature_check(&keys, unix_s, &message, &arena, error);
    arena_deinit(&arena);
    free(text);
    return status;
}

static void what_is_signed_by_a_key_that_is_known_is_taken(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(check(FIELDS(TIME) RIGHT, "{}", NOW, &error), STATUS_OK);
    assert_int_equal(check(RIGHT FIELDS(TIME) LINE("User-Agent: any"), "{}", NOW, &error),
                     STATUS_OK);
    assert_int_equal(check(FIELDS(TIME) RIGHT, "{}", NOW + SIGNATURE_WINDOW_S, &error), STATUS_OK);
    assert_int_equal(check(FIELDS(TIME) RIGHT, "{}", NOW - SIGNATURE_WINDOW_S, &error), STATUS_OK);
    /* Blanks, fields that come twice, the body's hash in a field, another region. */
    assert_int_equal(
        check(LINE("X-Two:  a    b ") LINE("x-two:c") LINE("Host:h")
                  LINE("X-AMZ-TARGET:DynamoDB_20120810.ListTables ") LINE("X-Amz-Date:" TIME) LINE(
                      "x-amz-content-sha256: 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e831"
                      "0c060f61caaff8a")
                      AUTHORIZATION("AKIDEXAMPLE/20240101/eu-west-1/dynamodb/aws4_request",
                                    "host;x-amz-content-sha256;x-amz-date;x-amz-target;x-two",
                                    "5ef09007578ecd62511ccf5b5f897702fa07ffa8cc46c90dc2a85652124a"
                                    "34a0"),
              "{}", NOW, &error),
        STATUS_OK);
}

static void everything_else_is_refused_with_dynamodbs_texts(void **state)
{
    (void)state;
#define NO_MATCH ""
    static const struct {
        const char *fields, *body;
        int64_t later_s;
        enum status status;
        const char *text; /* how it begins; "": the status' own */
    } cases[] = {
        {FIELDS(TIME), "{}", 0, STATUS_MISSING_TOKEN, ""},
        {FIELDS(TIME) LINE("Authorization: Basic eDp5"), "{}", 0, STATUS_MISSING_TOKEN, ""},
        {FIELDS(TIME) LINE("Authorization: AWS4-HMAC-SHA256"), "{}", 0, STATUS_INCOMPLETE_SIGNATURE,
         "Authorization header requires 'Credential' parameter. Authorization header requires "
         "'Signature' parameter. Authorization header requires 'SignedHeaders' parameter. "
         "Authorization=AWS4-HMAC-SHA256"},
        {LINE("Host: h") RIGHT, "{}", 0, STATUS_INCOMPLETE_SIGNATURE,
         "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "},
        {FIELDS("20240101") RIGHT, "{}", 0, STATUS_INCOMPLETE_SIGNATURE,
         "Date must be in ISO-8601 'basic format'. Got '20240101'. See http"},
        {FIELDS("20240231T000000Z") RIGHT, "{}", 0, STATUS_INCOMPLETE_SIGNATURE, "Date must be"},
        {FIELDS("20240101T000060Z") RIGHT, "{}", 0, STATUS_INCOMPLETE_SIGNATURE, "Date must be"},
        {FIELDS("20240101 000000Z") RIGHT, "{}", 0, STATUS_INCOMPLETE_SIGNATURE, "Date must be"},
        {FIELDS(TIME) RIGHT, "{}", SIGNATURE_WINDOW_S + 1, STATUS_INVALID_SIGNATURE,
         "Signature expired: 20240101T000000Z is now earlier than 20240101T000001Z "
         "(20240101T000501Z - 5 min.)"},
        {FIELDS(TIME) RIGHT, "{}", -SIGNATURE_WINDOW_S - 1, STATUS_INVALID_SIGNATURE,
         "Signature not yet current: 20240101T000000Z is still later than 20231231T235959Z "
         "(20231231T235459Z + 5 min.)"},
        {FIELDS(TIME) AUTHORIZATION("AKIDEXAMPLE/" SCOPE, "x-amz-date;x-amz-target", SIGNATURE),
         "{}", 0, STATUS_INVALID_SIGNATURE,
         "'Host' must be a 'SignedHeader' in the AWS Authorization."},
        {FIELDS(TIME) AUTHORIZATION("AKIDEXAMPLE/" SCOPE, "host;x-amz-date", SIGNATURE), "{}", 0,
         STATUS_INVALID_SIGNATURE, "'X-Amz-Target' must be a 'SignedHeader'"},
        {FIELDS(TIME) AUTHORIZATION("AKIDEXAMPLE/" SCOPE, "host;x-amz-target", SIGNATURE), "{}", 0,
         STATUS_INVALID_SIGNATURE, "'X-Amz-Date' must be a 'SignedHeader'"},
        {FIELDS(TIME) AUTHORIZATION("AKIDEXAMPLE/" SCOPE, "host;host;x-amz-target", SIGNATURE),
         "{}", 0, STATUS_INVALID_SIGNATURE, "SignedHeaders must be"},
        {FIELDS(TIME) LINE("Authorization: AWS4-HMAC-SHA1 Credential=a, SignedHeaders=" NAMES
                           ", Signature=c"),
         "{}", 0, STATUS_INCOMPLETE_SIGNATURE,
         "Unsupported AWS 'algorithm': 'AWS4-HMAC-SHA1' (only AWS4-HMAC-SHA256 for now). "},
        {FIELDS(TIME) AUTHORIZATION("a/b/c/d", NAMES, SIGNATURE), "{}", 0,
         STATUS_INCOMPLETE_SIGNATURE,
         "Credential must have exactly 5 slash-delimited elements, e.g. "
         "keyid/date/region/service/term, got 'a/b/c/d'"},
        {FIELDS(TIME) AUTHORIZATION("AKIDEXAMPLE/" SCOPE "/more", NAMES, SIGNATURE), "{}", 0,
         STATUS_INCOMPLETE_SIGNATURE, "Credential must have exactly 5"},
        {FIELDS(TIME) AUTHORIZATION("AKIDEXAMPLE/20240101/r/s3/aws4_request", NAMES, SIGNATURE),
         "{}", 0, STATUS_INVALID_SIGNATURE,
         "Credential should be scoped to correct service: 'dynamodb'. "},
        {FIELDS(TIME) AUTHORIZATION("AKIDEXAMPLE/20240101/r/dynamodb/aws4", NAMES, SIGNATURE), "{}",
         0, STATUS_INVALID_SIGNATURE,
         "Credential should be scoped with a valid terminator: 'aws4_request', not 'aws4'. "},
        {FIELDS(TIME)
             AUTHORIZATION("AKIDEXAMPLE/20240102/r/dynamodb/aws4_request", NAMES, SIGNATURE),
         "{}", 0, STATUS_INVALID_SIGNATURE,
         "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from "
         "HTTP: "
         "'20240102' != '20240101', from '20240101T000000Z'."},
        {FIELDS(TIME) AUTHORIZATION("NOBODY/" SCOPE, NAMES, SIGNATURE), "{}", 0,
         STATUS_UNRECOGNIZED_CLIENT, ""},
        /* Another key, signature, body, field or name of a field. */
        {FIELDS(TIME) AUTHORIZATION("OTHER/" SCOPE, NAMES, SIGNATURE), "{}", 0,
         STATUS_INVALID_SIGNATURE, NO_MATCH},
        {FIELDS(TIME)
             AUTHORIZATION("AKIDEXAMPLE/" SCOPE, NAMES,
                           "d3d1904c05f40fc0b3c52a68918c5c8559b532e06e085698e8716a9a086b136e"),
         "{}", 0, STATUS_INVALID_SIGNATURE, NO_MATCH},
        {FIELDS(TIME) AUTHORIZATION("AKIDEXAMPLE/" SCOPE, NAMES, "d3"), "{}", 0,
         STATUS_INVALID_SIGNATURE, NO_MATCH},
        {FIELDS(TIME) RIGHT, "{ }", 0, STATUS_INVALID_SIGNATURE, NO_MATCH},
        {FIELDS("20240101T000001Z") RIGHT, "{}", 0, STATUS_INVALID_SIGNATURE, NO_MATCH},
        {FIELDS(TIME) RIGHT LINE("Content-Type: text/plain"), "{}", 0, STATUS_INVALID_SIGNATURE,
         NO_MATCH},
        {FIELDS(TIME) RIGHT LINE("x-amz-content-sha256: UNSIGNED-PAYLOAD"), "{}", 0,
         STATUS_INVALID_SIGNATURE, NO_MATCH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error;
        enum status status =
            check(cases[i].fields, cases[i].body, (uint64_t)(NOW + cases[i].later_s), &error);
        bool is_own = cases[i].text[0] == '\0';
        if (status != cases[i].status || is_own != (error.text[0] == '\0') ||
            strncmp(error.text, cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("%s gave %s: %s", cases[i].fields, status_name(status), error.text);
    }
}

/* ---- through the wire ---- */

static void a_wire_checks_only_if_there_are_keys(void **state)
{
    (void)state;
    static const struct access_keys none = {NULL, 0};
    static const char signed_text[] =
        "POST / HTTP/1.1\r\n" FIELDS(TIME) RIGHT "Content-Length: 2\r\n\r\n{}";
    static const char text[] = "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n"
                               "Content-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\n\r\n";
    const struct {
        const struct access_keys *keys;
        const char *text;
        enum wire_result result;
    } cases[] = {
        {NULL, text, WIRE_REQUEST},        {&none, text, WIRE_REQUEST},
        {&keys, text, WIRE_ANSWERED},      {&keys, signed_text, WIRE_REQUEST},
        {NULL, signed_text, WIRE_REQUEST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wire_session session = {.frame_max = 1 << 16, .keys = cases[i].keys, .unix_s = NOW};
        struct request request;
        struct buffer out = {0};
        struct arena arena;
        size_t used = 0, needed;
        arena_init(&arena, NULL, 0, ARENA_MAX);
        assert_int_equal(wire_dynamodb.decode(&session, bytes_text(cases[i].text), &arena, &request,
                                              &used, &needed, &out),
                         cases[i].result);
        if (cases[i].result == WIRE_ANSWERED) {
            static const char type[] =
                "com.amazon.coral.service#MissingAuthenticationTokenException"
                "\",\"message\":\"Request is missing Authentication Token\"}";
            assert_memory_equal(out.data, "HTTP/1.1 400 Bad Request\r\n", 26);
            assert_non_null(memmem(out.data, out.size, type, sizeof type - 1));
            /* Whoever asks for health has no key. */
            out.size = 0;
            assert_int_equal(wire_dynamodb.decode(&session, bytes_text(cases[i].text + used),
                                                  &arena, &request, &used, &needed, &out),
                             WIRE_ANSWERED);
            assert_memory_equal(out.data, "HTTP/1.1 200 OK\r\n", 17);
        }
        buffer_deinit(&out);
        arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_arithmetic_is_that_of_awss_own_vectors),
        cmocka_unit_test(what_is_signed_by_a_key_that_is_known_is_taken),
        cmocka_unit_test(everything_else_is_refused_with_dynamodbs_texts),
        cmocka_unit_test(a_wire_checks_only_if_there_are_keys),
    };
    return cmocka_run_group_tests_name("signature", tests, NULL, NULL);
}
