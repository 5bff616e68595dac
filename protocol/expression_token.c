#include "protocol/expression_token.h"

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static uint8_t to_lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;
}

static bool is_letter(uint8_t byte)
{
    uint8_t lower = to_lower(byte);
    return (lower >= 'a' && lower <= 'z') || byte == '_';
}

static size_t word_size(const uint8_t *at, const uint8_t *end)
{
    size_t size = 0;
    while (at + size < end && (is_letter(at[size]) || is_digit(at[size])))
        size++;
    return size;
}

bool words_equal(struct bytes a, struct bytes b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++)
        if (to_lower(a.data[i]) != to_lower(b.data[i]))
            return false;
    return true;
}

bool alias_is_valid(struct bytes alias, uint8_t prefix)
{
    return alias.size > 1 && alias.data[0] == prefix &&
           word_size(alias.data + 1, alias.data + alias.size) == alias.size - 1;
}

static enum token_kind word_kind(struct bytes word)
{
    static const struct {
        struct bytes word;
        enum token_kind kind;
    } keywords[] = {
        {{(const uint8_t *)"and", 3}, TOKEN_AND}, {{(const uint8_t *)"or", 2}, TOKEN_OR},
        {{(const uint8_t *)"not", 3}, TOKEN_NOT}, {{(const uint8_t *)"between", 7}, TOKEN_BETWEEN},
        {{(const uint8_t *)"in", 2}, TOKEN_IN},
    };
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (words_equal(word, keywords[i].word))
            return keywords[i].kind;
    return TOKEN_NAME;
}

static enum token_kind sign_kind(uint8_t sign)
{
    switch (sign) {
    case '=':
        return TOKEN_EQUAL;
    case '<':
        return TOKEN_LESS;
    case '>':
        return TOKEN_GREATER;
    case '(':
        return TOKEN_OPEN;
    case ')':
        return TOKEN_CLOSE;
    case '[':
        return TOKEN_OPEN_INDEX;
    case ']':
        return TOKEN_CLOSE_INDEX;
    case ',':
        return TOKEN_COMMA;
    case '.':
        return TOKEN_DOT;
    case '+':
        return TOKEN_PLUS;
    case '-':
        return TOKEN_MINUS;
    default:
        return TOKEN_WRONG;
    }
}

static struct token read_sign(const uint8_t *at, const uint8_t *end)
{
    if (end - at >= 2 && at[0] == '<' && at[1] == '>')
        return (struct token){TOKEN_NOT_EQUAL, bytes_of(at, 2)};
    if (end - at >= 2 && at[0] == '<' && at[1] == '=')
        return (struct token){TOKEN_LESS_EQUAL, bytes_of(at, 2)};
    if (end - at >= 2 && at[0] == '>' && at[1] == '=')
        return (struct token){TOKEN_GREATER_EQUAL, bytes_of(at, 2)};
    return (struct token){sign_kind(*at), bytes_of(at, 1)};
}

struct token token_read(struct bytes text)
{
    if (text.size == 0)
        return (struct token){TOKEN_END, text};
    const uint8_t *at = text.data;
    const uint8_t *end = at + text.size;
    while (at < end && is_blank(*at))
        at++;
    if (at == end)
        return (struct token){TOKEN_END, bytes_of(end, 0)};
    if (is_letter(*at)) {
        struct bytes word = bytes_of(at, word_size(at, end));
        return (struct token){word_kind(word), word};
    }
    if (is_digit(*at)) {
        size_t size = 1;
        while (at + size < end && is_digit(at[size]))
            size++;
        return (struct token){TOKEN_DIGITS, bytes_of(at, size)};
    }
    if (*at == '#' || *at == ':') {
        size_t size = word_size(at + 1, end);
        if (size == 0)
            return (struct token){TOKEN_WRONG, bytes_of(at, 1)};
        return (struct token){*at == '#' ? TOKEN_NAME_ALIAS : TOKEN_VALUE_ALIAS,
                              bytes_of(at, size + 1)};
    }
    return read_sign(at, end);
}
