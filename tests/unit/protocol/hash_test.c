#include "protocol/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void partitions_hash_the_same_for_ever(void **state)
{
    (void)state;
    /* Stored records depend on these. Source: xxHash 0.8.1; the format of XXH3 is frozen since
     * 0.8.0. */
    assert_true(hash_partition(BYTES_LITERAL("")) == 0x2d06800538d394c2ULL);
    assert_true(hash_partition(BYTES_LITERAL("a")) == 0xe6c632b61e964e1fULL);
    assert_true(hash_partition(BYTES_LITERAL("customer#17")) == 0x0724f6aefaac4e2fULL);
}

static void a_secret_changes_every_hash(void **state)
{
    (void)state;
    struct hash_secret secrets[2];
    hash_secret_init(&secrets[0], 1);
    hash_secret_init(&secrets[1], 2);
    struct bytes key = BYTES_LITERAL("customer#17");
    assert_true(hash_secret_apply(&secrets[0], key) != hash_secret_apply(&secrets[1], key));
    assert_true(hash_secret_apply(&secrets[0], key) != hash_partition(key));
    hash_secret_init(&secrets[1], 1);
    assert_true(hash_secret_apply(&secrets[0], key) == hash_secret_apply(&secrets[1], key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partitions_hash_the_same_for_ever),
        cmocka_unit_test(a_secret_changes_every_hash),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
