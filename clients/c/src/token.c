#include "clients/c/src/token.h"

#include <stdint.h>
#include <sys/random.h>

bool token_make(char out[TOKEN_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[16];
    /* Never less than asked for, up to 256 bytes. */
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    bytes[6] = (uint8_t)(0x40 | (bytes[6] & 0x0f)); /* version 4 */
    bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3f)); /* variant 1 */
    char *at = out;
    for (unsigned i = 0; i < sizeof bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 0x0f];
    }
    *at = '\0';
    return true;
}
