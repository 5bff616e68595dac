#include "cache/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct cache_policy all = {
    .is_enabled = true, .item_ttl_ms = 1000, .query_ttl_ms = 1000, .negative_ttl_max_ms = 1000};

static const struct secondary_index by_status = {
    .id = 9,
    .name = BYTES_LITERAL("ByStatus"),
    .key = {.partition = {BYTES_LITERAL("status"), VALUE_S},
            .sort = {BYTES_LITERAL("at"), VALUE_N},
            .is_followed = true}};
static const struct table shop = {
    .id = 1,
    .name = BYTES_LITERAL("Shop"),
    .key = {.partition = {BYTES_LITERAL("p"), VALUE_S}, .sort = {BYTES_LITERAL("s"), VALUE_S}}};
static const struct table numbers = {
    .id = 2, .name = BYTES_LITERAL("Numbers"), .key = {.partition = {BYTES_LITERAL("n"), VALUE_N}}};
static const struct table blobs = {
    .id = 3,
    .name = BYTES_LITERAL("Blobs"),
    .key = {.partition = {BYTES_LITERAL("b"), VALUE_B}, .sort = {BYTES_LITERAL("s"), VALUE_S}}};

static struct rules *built;

/* One rule, called "it". */
static void build(struct cache_rule rule)
{
    static const unsigned number = 1;
    rule.name = BYTES_LITERAL("it");
    struct cache_policies policies = {.fallback = all, .rules = &rule, .rule_count = 1};
    free(built);
    built = rules_build(malloc(rules_size(&policies)), 1000000, &policies, &number, NULL);
}

static bool fits_with(const struct rule_subject *subject, struct bytes body)
{
    struct rule_fit fit = rules_fit(built, subject);
    return tag_policy(rules_tag(built, &fit, body)) == 1;
}

static uint8_t key_room[400];

/* A key's partition part, terminated if a sort key follows. */
static struct bytes partition_of(const struct key_schema *schema, struct bytes contents)
{
    uint8_t *end = key_part_write(key_room, schema->partition.type, contents,
                                  key_schema_is_last(schema, false));
    return bytes_of(key_room, (size_t)(end - key_room));
}

static bool fits_item(const struct table *table, struct bytes partition, const char *sort)
{
    struct rule_subject subject = {.table = table,
                                   .partition = partition_of(&table->key, partition),
                                   .sort = bytes_text(sort)};
    return fits_with(&subject, BYTES_NONE);
}

static bool fits_shop(const char *partition, const char *sort)
{
    return fits_item(&shop, bytes_text(partition), sort);
}

static bool fits_page(const char *partition, struct bytes low, struct bytes high)
{
    struct rule_subject subject = {.table = &shop,
                                   .is_page = true,
                                   .partition = partition_of(&shop.key, bytes_text(partition)),
                                   .sorts = {low, high}};
    return fits_with(&subject, BYTES_NONE);
}

static void tables_by_name_and_beginning(void **state)
{
    (void)state;
    build((struct cache_rule){.table = BYTES_LITERAL("Shop")});
    assert_true(fits_shop("a", "b"));
    assert_false(fits_item(&blobs, BYTES_LITERAL("a"), "b"));
    build((struct cache_rule){.table = BYTES_LITERAL("Sho")});
    assert_false(fits_shop("a", "b"));
    build((struct cache_rule){.table = BYTES_LITERAL("Sho*")});
    assert_true(fits_shop("a", "b"));
    build((struct cache_rule){.table = BYTES_LITERAL("*")});
    assert_true(fits_shop("a", "b"));
    build((struct cache_rule){.policy = all});
    assert_true(fits_shop("a", "b"));
}

static void string_keys_exactly_and_by_their_beginning(void **state)
{
    (void)state;
    build((struct cache_rule){.partition_key = BYTES_LITERAL("USER#*"),
                              .sort_key = BYTES_LITERAL("ORDER#*")});
    assert_true(fits_shop("USER#1", "ORDER#1"));
    assert_true(fits_shop("USER#", "ORDER#"));
    assert_false(fits_shop("USER", "ORDER#1"));
    assert_false(fits_shop("USER#1", "CART#1"));
    build((struct cache_rule){.partition_key = BYTES_LITERAL("USER#1"),
                              .sort_key = BYTES_LITERAL("*")});
    assert_true(fits_shop("USER#1", "x"));
    assert_false(fits_shop("USER#10", "x"));
    assert_false(fits_shop("USER#", "x"));
    build((struct cache_rule){.sort_key = BYTES_LITERAL("ORDER")});
    assert_true(fits_shop("anything", "ORDER"));
    assert_false(fits_shop("anything", "ORDERS"));
    assert_false(fits_item(&numbers, BYTES_LITERAL("x"), "")); /* it has no sort key */
}

static struct bytes ordered(const char *text)
{
    static uint8_t room[NUMBER_ORDERED_MAX];
    struct number number;
    struct error error;
    assert_int_equal(number_parse(bytes_text(text), &number, &error), STATUS_OK);
    return bytes_of(room, number_to_ordered(&number, room));
}

static void numbers_and_binaries_exactly_by_their_text(void **state)
{
    (void)state;
    build((struct cache_rule){.partition_key = BYTES_LITERAL("1.50")});
    assert_true(fits_item(&numbers, ordered("1.5"), ""));
    assert_false(fits_item(&numbers, ordered("1.51"), ""));
    assert_true(fits_shop("1.50", "x"));
    assert_false(fits_shop("1.5", "x"));
    build((struct cache_rule){.partition_key = BYTES_LITERAL("1*")});
    assert_false(fits_item(&numbers, ordered("1"), ""));
    assert_false(fits_item(&numbers, ordered("10"), ""));
    build((struct cache_rule){.partition_key = BYTES_LITERAL("AP8A")}); /* 00 FF 00 */
    assert_true(fits_item(&blobs, BYTES_LITERAL("\x00\xff\x00"), "x"));
    assert_false(fits_item(&blobs, BYTES_LITERAL("\x00\xff"), "x"));
    build((struct cache_rule){.partition_key = BYTES_LITERAL("no number, no base64")});
    assert_false(fits_item(&blobs, BYTES_LITERAL("no"), "x"));
    assert_false(fits_item(&numbers, ordered("0"), ""));
}

static void a_page_fits_when_all_that_it_may_show_does(void **state)
{
    (void)state;
    const struct bytes open = BYTES_NONE;
    build((struct cache_rule){.partition_key = BYTES_LITERAL("USER#*"),
                              .sort_key = BYTES_LITERAL("ORDER#*")});
    assert_true(fits_page("USER#1", BYTES_LITERAL("ORDER#"), BYTES_LITERAL("ORDER$")));
    assert_true(fits_page("USER#1", BYTES_LITERAL("ORDER#5"), BYTES_LITERAL("ORDER#6")));
    assert_true(fits_page("USER#1", BYTES_LITERAL("ORDER#5"), BYTES_LITERAL("ORDER$")));
    assert_false(fits_page("USER#1", BYTES_LITERAL("ORDER#5"), BYTES_LITERAL("ORDER$0")));
    assert_false(fits_page("USER#1", BYTES_LITERAL("ORDER#5"), BYTES_LITERAL("ORDER")));
    assert_false(fits_page("USER#1", BYTES_LITERAL("ORDER"), BYTES_LITERAL("ORDER$")));
    assert_false(fits_page("USER#1", BYTES_LITERAL("ORDER#5"), open));
    assert_false(fits_page("USER#1", BYTES_LITERAL(""), open));
    assert_false(fits_page("CART#1", BYTES_LITERAL("ORDER#"), BYTES_LITERAL("ORDER$")));
    build((struct cache_rule){.sort_key = BYTES_LITERAL("ORDER")});
    assert_true(fits_page("x", BYTES_LITERAL("ORDER"), BYTES_LITERAL("ORDER\0")));
    assert_false(fits_page("x", BYTES_LITERAL("ORDER"), BYTES_LITERAL("ORDER\0\0")));
    assert_false(fits_page("x", BYTES_LITERAL("ORDER"), BYTES_LITERAL("ORDES")));
    assert_false(fits_page("x", BYTES_LITERAL("ORDER"), open));
    build((struct cache_rule){.sort_key = BYTES_LITERAL("*")});
    assert_true(fits_page("x", BYTES_LITERAL(""), open));
    build((struct cache_rule){.partition_key = BYTES_LITERAL("*")});
    assert_true(fits_page("x", BYTES_LITERAL("a"), BYTES_LITERAL("b")));
    struct rule_subject scan = {.table = &shop, .is_page = true};
    assert_false(fits_with(&scan, BYTES_NONE)); /* it shows all partitions, but has no key */
    build((struct cache_rule){.table = BYTES_LITERAL("Shop")});
    assert_true(fits_with(&scan, BYTES_NONE));
}

static bool fits_index(const char *partition, struct bytes low, struct bytes high)
{
    struct rule_subject subject = {.table = &shop,
                                   .index = &by_status,
                                   .is_page = true,
                                   .partition = partition_of(&by_status.key, bytes_text(partition)),
                                   .sorts = {low, high}};
    return fits_with(&subject, BYTES_NONE);
}

static void keys_without_an_index_are_the_tables(void **state)
{
    (void)state;
    struct bytes one = ordered("1");
    uint8_t next[NUMBER_ORDERED_MAX];
    memcpy(next, one.data, one.size);
    next[one.size - 1]++; /* no number ends in FF */
    struct bytes behind = bytes_of(next, one.size);
    build((struct cache_rule){.index = BYTES_LITERAL("ByStatus"),
                              .partition_key = BYTES_LITERAL("OPEN")});
    assert_true(fits_index("OPEN", BYTES_LITERAL(""), BYTES_NONE));
    assert_false(fits_index("OPENED", BYTES_LITERAL(""), BYTES_NONE));
    assert_false(fits_shop("OPEN", "x"));
    assert_false(fits_page("OPEN", BYTES_LITERAL(""), BYTES_NONE));
    build((struct cache_rule){.index = BYTES_LITERAL("By*"), .sort_key = BYTES_LITERAL("1")});
    assert_true(fits_index("OPEN", one, behind));
    assert_false(fits_index("OPEN", one, BYTES_NONE));
    assert_false(fits_index("OPEN", BYTES_LITERAL(""), behind));
    build((struct cache_rule){.partition_key = BYTES_LITERAL("OPEN")});
    assert_false(fits_index("OPEN", BYTES_LITERAL(""), BYTES_NONE));
    build((struct cache_rule){.table = BYTES_LITERAL("Shop")});
    assert_true(fits_index("OPEN", BYTES_LITERAL(""), BYTES_NONE));
}

static void a_type_is_known_with_the_item(void **state)
{
    (void)state;
    build((struct cache_rule){.attribute = BYTES_LITERAL("Type"), .value = BYTES_LITERAL("Order")});
    struct rule_subject item = {.table = &shop,
                                .partition = partition_of(&shop.key, BYTES_LITERAL("x"))};
    struct rule_subject page = {.table = &shop, .partition = item.partition, .is_page = true};
    struct bytes order = BYTES_LITERAL("\x82\xa4Type\xa5Order\xa1x\x01");
    assert_true(fits_with(&item, order));
    assert_false(fits_with(&item, BYTES_NONE));
    assert_false(fits_with(&item, BYTES_LITERAL("\x81\xa4Type\xa4"
                                                "Cart")));
    assert_false(fits_with(&item, BYTES_LITERAL("\x81\xa4type\xa5Order")));
    assert_false(fits_with(&item, BYTES_LITERAL("\x81\xa4Type\x01")));
    assert_false(fits_with(&page, order));
}

static void the_first_rule_counts_and_what_may_be_kept_is_looked_at(void **state)
{
    (void)state;
    const unsigned numbers_given[] = {2, 1, 3};
    struct cache_rule rules[] = {
        {.attribute = BYTES_LITERAL("Type"), .value = BYTES_LITERAL("Order"), .policy = all},
        {.table = BYTES_LITERAL("Shop"), .policy = {.is_enabled = false}},
        {.table = BYTES_LITERAL("*"),
         .policy =
             {.is_enabled = true, .item_ttl_ms = 0, .query_ttl_ms = 0, .negative_ttl_max_ms = 5}},
    };
    struct cache_policies policies = {.fallback = all, .rules = rules, .rule_count = 3};
    free(built);
    built = rules_build(malloc(rules_size(&policies)), 1000000, &policies, numbers_given, NULL);
    struct rule_subject in_shop = {.table = &shop,
                                   .partition = partition_of(&shop.key, BYTES_LITERAL("x"))};
    struct rule_subject elsewhere = {.table = &blobs, .partition = in_shop.partition};
    struct rule_fit fit = rules_fit(built, &in_shop);
    assert_int_equal(rules_tag(built, &fit, BYTES_LITERAL("\x81\xa4Type\xa5Order")), 2);
    assert_int_equal(rules_tag(built, &fit, BYTES_LITERAL("\x80")), 1);
    assert_true(rules_may_keep(built, &fit, ENTRY_ITEM)); /* if it is an order */
    in_shop.is_page = true;
    fit = rules_fit(built, &in_shop);
    assert_false(rules_may_keep(built, &fit, ENTRY_PAGE));
    fit = rules_fit(built, &elsewhere);
    assert_int_equal(rules_tag(built, &fit, BYTES_NONE), 3);
    assert_int_equal(built->due_ms[2][EXPIRY_ITEMS], 1000);
    assert_int_equal(built->due_ms[1][EXPIRY_ITEMS], 0);
    assert_int_equal(built->due_ms[3][EXPIRY_ITEMS], AGE_MAX_MS);
    assert_int_equal(built->due_ms[3][EXPIRY_PAGES], 0);
    assert_int_equal(built->due_ms[3][EXPIRY_NEGATIVES], 5);
    assert_int_equal(built->due_ms[0][EXPIRY_ITEMS], 1000);
}

static void due_and_life_follow_from_ttl_grace_and_refresh(void **state)
{
    (void)state;
    struct cache_policy policy = {.is_enabled = true,
                                  .item_ttl_ms = 1001,
                                  .query_ttl_ms = 100,
                                  .negative_ttl_max_ms = 10,
                                  .stale_while_refetch_ms = 5,
                                  .stale_if_error_ms = 7,
                                  .refresh_percent = 80};
    build((struct cache_rule){.policy = policy});
    assert_int_equal(built->due_ms[1][EXPIRY_ITEMS], 801);
    assert_int_equal(built->due_ms[1][EXPIRY_PAGES], 80);
    assert_int_equal(built->due_ms[1][EXPIRY_NEGATIVES], 8);
    assert_int_equal(rules_terms(built, 1)->life_ms[EXPIRY_ITEMS], 1008);
    assert_int_equal(rules_terms(built, 1)->life_ms[EXPIRY_NEGATIVES], 17);
    policy.item_ttl_ms = 0; /* no end: nothing to refresh, nothing stale */
    policy.query_ttl_ms = 24u * 86400000;
    build((struct cache_rule){.policy = policy});
    assert_int_equal(built->due_ms[1][EXPIRY_ITEMS], AGE_MAX_MS);
    assert_int_equal(rules_terms(built, 1)->life_ms[EXPIRY_ITEMS], AGE_MAX_MS);
    assert_int_equal(rules_terms(built, 1)->life_ms[EXPIRY_PAGES], AGE_MAX_MS);
    policy.is_enabled = false;
    build((struct cache_rule){.policy = policy});
    assert_int_equal(rules_terms(built, 1)->life_ms[EXPIRY_ITEMS], 0);
}

static struct rules *build_after(const struct rules *before, struct cache_rule rule,
                                 unsigned number)
{
    struct cache_policies policies = {.fallback = all, .rules = &rule, .rule_count = 1};
    return rules_build(malloc(rules_size(&policies)), 1000000, &policies, &number, before);
}

static void only_rules_that_match_otherwise_are_another_generation(void **state)
{
    (void)state;
    struct cache_rule rule = {.table = BYTES_LITERAL("Shop"), .policy = all};
    struct rules *first = build_after(NULL, rule, 1);
    rule.policy.item_ttl_ms = 5;
    struct rules *second = build_after(first, rule, 1);
    assert_int_equal(second->generation, first->generation);
    assert_int_equal(second->due_ms[1][EXPIRY_ITEMS], 5);
    rule.table = BYTES_LITERAL("Shop*");
    struct rules *third = build_after(second, rule, 1);
    assert_int_not_equal(third->generation, second->generation);
    struct rules *fourth = build_after(third, rule, 2); /* another policy's */
    assert_int_not_equal(fourth->generation, third->generation);
    struct rule_subject item = {.table = &shop,
                                .partition = partition_of(&shop.key, BYTES_LITERAL("x"))};
    struct rule_fit fit = rules_fit(third, &item);
    assert_int_equal(rules_tag(third, &fit, BYTES_NONE), third->generation | 1);
    assert_int_equal(rules_tag(fourth, &fit, BYTES_NONE),
                     third->generation); /* to be found again */
    struct rules *at = fourth;
    for (unsigned i = 0; i < RULE_GENERATIONS; i++) {
        rule.table = i % 2 == 0 ? BYTES_LITERAL("a") : BYTES_LITERAL("b");
        struct rules *next = build_after(at, rule, 2);
        assert_int_not_equal(next->generation, at->generation);
        assert_int_equal(next->generation == fourth->generation, i == RULE_GENERATIONS - 1);
        if (at != fourth)
            free(at);
        at = next;
    }
    fit = rules_fit(fourth, &item); /* of a request that has waited all the while */
    assert_int_equal(fit.rules, 1);
    unsigned tag = rules_tag(at, &fit, BYTES_NONE);
    assert_int_equal(tag_policy(tag), 0);
    assert_int_not_equal(tag, at->generation);
    free(at), free(first), free(second), free(third), free(fourth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_by_name_and_beginning),
        cmocka_unit_test(string_keys_exactly_and_by_their_beginning),
        cmocka_unit_test(numbers_and_binaries_exactly_by_their_text),
        cmocka_unit_test(a_page_fits_when_all_that_it_may_show_does),
        cmocka_unit_test(keys_without_an_index_are_the_tables),
        cmocka_unit_test(a_type_is_known_with_the_item),
        cmocka_unit_test(the_first_rule_counts_and_what_may_be_kept_is_looked_at),
        cmocka_unit_test(due_and_life_follow_from_ttl_grace_and_refresh),
        cmocka_unit_test(only_rules_that_match_otherwise_are_another_generation),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(built);
    return failed;
}
