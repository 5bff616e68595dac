#include "protocol/encoding/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int digit_of(uint8_t letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

/* Four letters, the last `padding` of which are =, to 3 - padding bytes. */
static bool decode_quad(const uint8_t *in, size_t padding, uint8_t *out)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int digit = i < 4 - padding ? digit_of(in[i]) : 0;
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
    }
    if ((bits & ((1U << (8 * padding)) - 1)) != 0)
        return false;
    for (size_t i = 0; i < 3 - padding; i++)
        out[i] = (uint8_t)(bits >> (16 - 8 * i));
    return true;
}

bool base64_decode(struct bytes text, uint8_t *out, size_t *size)
{
    *size = 0;
    if (text.size % 4 != 0)
        return false;
    for (size_t at = 0; at < text.size; at += 4) {
        size_t padding = 0;
        if (at + 4 == text.size)
            padding = text.data[at + 3] != '=' ? 0 : text.data[at + 2] != '=' ? 1 : 2;
        if (!decode_quad(text.data + at, padding, out + *size))
            return false;
        *size += 3 - padding;
    }
    return true;
}

void base64_encode(struct bytes bytes, char *out)
{
    for (size_t at = 0; at < bytes.size; at += 3) {
        size_t left = bytes.size - at;
        uint32_t bits = (uint32_t)bytes.data[at] << 16;
        bits |= left > 1 ? (uint32_t)bytes.data[at + 1] << 8 : 0;
        bits |= left > 2 ? bytes.data[at + 2] : 0;
        out[0] = letters[bits >> 18];
        out[1] = letters[bits >> 12 & 63];
        out[2] = left > 1 ? letters[bits >> 6 & 63] : '=';
        out[3] = left > 2 ? letters[bits & 63] : '=';
        out += 4;
    }
}
