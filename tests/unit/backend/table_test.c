#include "backend/engine/record.h"
#include "backend/engine/table.h"
#include "tests/support/session.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct session session; /* for its JSON and its arena alone */

static int set_up(void **state)
{
    (void)state;
    arena_init(&session.arena, NULL, 0, 64 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_deinit(&session.arena);
    return 0;
}

static struct bytes record_of(const char *name, uint32_t id)
{
    char text[400];
    snprintf(text, sizeof text,
             "{'TableName': '%s', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}, "
             "{'AttributeName': 's', 'KeyType': 'RANGE'}], 'AttributeDefinitions': "
             "[{'AttributeName': 's', 'AttributeType': 'N'}, {'AttributeName': 'p', "
             "'AttributeType': 'B'}], 'Tags': [{'Key': 'a', 'Value': 'b'}]}",
             name);
    struct definition_input input;
    struct error error;
    if (definition_check(session_plain(&session, text), &session.arena, &input, &error) !=
        STATUS_OK)
        fail_msg("%s", error.text);
    return definition_encode(&input, id, 1234567, 4, &session.arena);
}

static struct definition *definition_of(const char *name, uint32_t id)
{
    struct definition *definition;
    assert_int_equal(definition_decode(record_of(name, id), &definition), STATUS_OK);
    return definition;
}

/* ---- definitions ---- */

static void a_definition_is_what_its_record_says(void **state)
{
    (void)state;
    struct definition *definition = definition_of("Things", 7);
    const struct table *table = &definition->table;
    assert_int_equal(table->id, 7);
    assert_true(bytes_equal(table->name, bytes_text("Things")));
    assert_true(bytes_equal(table->key.partition.name, bytes_text("p")));
    assert_int_equal(table->key.partition.type, VALUE_B);
    assert_true(bytes_equal(table->key.sort.name, bytes_text("s")));
    assert_int_equal(table->key.sort.type, VALUE_N);
    assert_int_equal(table->created_at_ms, 1234567);
    assert_int_equal(table->partitions, 4);
    struct bytes tags;
    assert_true(item_find(table->description, bytes_text("Tags"), &tags));
    assert_true(bytes_equal(definition->record, record_of("Things", 7)));
    definition_unref(definition);
}

/* Whatever is cut off or changed of a record, decoding ends in a status. */
static void no_damaged_record_becomes_a_definition_by_accident(void **state)
{
    (void)state;
    struct bytes record = record_of("Things", 7);
    for (size_t size = 0; size < record.size; size++) {
        struct definition *definition;
        assert_int_not_equal(definition_decode(bytes_of(record.data, size), &definition),
                             STATUS_OK);
    }
    uint8_t *changed = arena_alloc(&session.arena, record.size);
    assert_non_null(changed);
    for (size_t i = 0; i < record.size; i++) {
        memcpy(changed, record.data, record.size);
        changed[i] ^= 0x15;
        struct definition *definition;
        if (definition_decode(bytes_of(changed, record.size), &definition) == STATUS_OK) {
            assert_int_not_equal(definition->table.id, 0);
            definition_unref(definition);
        }
    }
}

static void definitions_need_no_more_memory_than_there_is(void **state)
{
    (void)state;
    static const char text[] = "{'TableName': 'Things', 'KeySchema': [{'AttributeName': 'p', "
                               "'KeyType': 'HASH'}], 'AttributeDefinitions': [{'AttributeName': "
                               "'p', 'AttributeType': 'S'}]}";
    struct bytes request = session_plain(&session, text);
    enum status status = STATUS_NO_MEMORY;
    size_t memory = 0;
    for (; status != STATUS_OK; memory += 16) {
        assert_true(memory < 65536);
        struct arena small;
        struct definition_input input;
        struct error error;
        arena_init(&small, NULL, 0, memory);
        status = definition_check(request, &small, &input, &error);
        if (status == STATUS_OK && !bytes_given(definition_encode(&input, 1, 1, 16, &small)))
            status = STATUS_NO_MEMORY;
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        arena_deinit(&small);
    }
    assert_true(memory > 256);
}

/* ---- the catalog ---- */

static struct catalog *catalog_with(struct catalog *catalog, const char *name, uint32_t id)
{
    struct definition *definition = definition_of(name, id);
    struct catalog *next = catalog_change(catalog, definition, NULL);
    assert_non_null(next);
    definition_unref(definition);
    catalog_unref(catalog);
    return next;
}

static struct definition *find(const struct catalog *catalog, const char *name)
{
    return catalog_find(catalog, bytes_text(name));
}

static void tables_are_found_by_name_and_listed_in_order(void **state)
{
    (void)state;
    struct catalog *catalog = catalog_create();
    assert_null(find(catalog, "Things"));
    char name[16];
    for (uint32_t i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "t%02u", i * 37 % 50);
        catalog = catalog_with(catalog, name, i + 1);
    }
    assert_int_equal(catalog_count(catalog), 50);
    assert_int_equal(catalog_version(catalog), 50);
    for (uint32_t i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "t%02u", i);
        assert_ptr_equal(find(catalog, name), catalog_at(catalog, i));
        assert_true(bytes_equal(catalog_at(catalog, i)->table.name, bytes_text(name)));
        assert_int_equal(catalog_after(catalog, bytes_text(name)), i + 1);
    }
    assert_null(find(catalog, "t50"));
    assert_int_equal(catalog_after(catalog, BYTES_NONE), 0);
    assert_int_equal(catalog_after(catalog, bytes_text("t")), 0);
    assert_int_equal(catalog_after(catalog, bytes_text("t03x")), 4);
    catalog_unref(catalog);
}

static void another_definition_takes_the_place_of_its_name(void **state)
{
    (void)state;
    struct catalog *catalog = catalog_with(catalog_create(), "one", 1);
    catalog = catalog_with(catalog, "two", 2);
    catalog = catalog_with(catalog, "one", 3);
    assert_int_equal(catalog_count(catalog), 2);
    assert_int_equal(find(catalog, "one")->table.id, 3);
    assert_int_equal(catalog_at(catalog, 1)->table.id, 2);
    catalog_unref(catalog);
}

static void who_holds_a_catalog_keeps_what_was_removed_since(void **state)
{
    (void)state;
    struct catalog *before = catalog_with(catalog_create(), "one", 1);
    struct definition *one = find(before, "one");
    struct catalog *after = catalog_change(before, NULL, one);
    assert_non_null(after);
    assert_int_equal(catalog_count(after), 0);
    assert_null(find(after, "one"));
    catalog_unref(after);
    assert_int_equal(find(before, "one")->table.id, 1);
    struct definition *held = definition_ref(one);
    catalog_unref(before);
    assert_true(bytes_equal(held->table.name, bytes_text("one")));
    definition_unref(held);
}

/* ---- records ---- */

static void a_tables_records_lie_in_its_range_and_nobody_elses(void **state)
{
    (void)state;
    struct arena *arena = &session.arena;
    struct bytes low, high;
    assert_true(record_items_range(5, arena, &low, &high));
    for (uint32_t id = 4; id <= 6; id++)
        for (int ends = 0; ends < 2; ends++) {
            struct bytes key =
                record_item_key(id, ends ? UINT64_MAX : 0, bytes_text("\xff"), arena);
            bool is_inside = bytes_compare(key, low) >= 0 && bytes_compare(key, high) < 0;
            assert_int_equal(is_inside, id == 5);
        }
    assert_true(record_counters_range(5, arena, &low, &high));
    for (uint32_t id = 4; id <= 6; id++) {
        struct bytes key = record_counter_key(id, 4095, arena);
        bool is_inside = bytes_compare(key, low) >= 0 && bytes_compare(key, high) < 0;
        assert_int_equal(is_inside, id == 5);
    }
    assert_true(record_definitions_range(arena, &low, &high));
    struct bytes key = record_definition_key(bytes_text("zz"), arena);
    assert_true(bytes_compare(key, low) >= 0 && bytes_compare(key, high) < 0);
    key = record_next_id_key(arena);
    assert_true(bytes_compare(key, low) < 0);
}

static void numbers_come_back_from_their_records(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 255, 256, 0x0102030405060708, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct bytes record = record_number_write(numbers[i], &session.arena);
        assert_int_equal(record_number_read(record), numbers[i]);
    }
    assert_int_equal(record_number_read(BYTES_NONE), 0);
    assert_int_equal(record_number_read(bytes_text("short")), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_is_what_its_record_says),
        cmocka_unit_test(no_damaged_record_becomes_a_definition_by_accident),
        cmocka_unit_test(definitions_need_no_more_memory_than_there_is),
        cmocka_unit_test(tables_are_found_by_name_and_listed_in_order),
        cmocka_unit_test(another_definition_takes_the_place_of_its_name),
        cmocka_unit_test(who_holds_a_catalog_keeps_what_was_removed_since),
        cmocka_unit_test(a_tables_records_lie_in_its_range_and_nobody_elses),
        cmocka_unit_test(numbers_come_back_from_their_records),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
