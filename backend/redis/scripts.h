/* scripts.h - what runs inside Redis: each script is one instant.
 *
 * Records of one partition key value (or all metadata) share a bucket, two Redis keys:
 *   mudax:{BUCKET}:h   hash: rest of the record's key -> version (8 bytes) and value
 *   mudax:{BUCKET}:z   sorted set of the hash's fields, all with score 0: Redis then orders by
 * bytes A version is the number of the commit that wrote the record; it is what a commit must find
 * unchanged. Numbers are packed little-endian. */
#pragma once

/* KEYS: hash of each record. ARGV: its field. Returns the values, false where there is none. */
static const char script_read[] = "local out = {}\n"
                                  "for i = 1, #KEYS do\n"
                                  "  out[i] = redis.call('HGET', KEYS[i], ARGV[i])\n"
                                  "end\n"
                                  "return out\n";

/* KEYS: hash, sorted set. ARGV: low, high (as ZRANGEBYLEX takes them), 'forward' or 'backward',
 * most records, most bytes. Returns fields and values in turn. */
static const char script_range[] =
    "local out, bytes, skip = {}, 0, 0\n"
    "local most, limit = tonumber(ARGV[4]), tonumber(ARGV[5])\n"
    "repeat\n"
    "  local fields\n"
    "  local count = math.min(64, most - skip)\n"
    "  if ARGV[3] == 'forward' then\n"
    "    fields = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', skip, count)\n"
    "  else\n"
    "    fields = redis.call('ZREVRANGEBYLEX', KEYS[2], ARGV[2], ARGV[1], 'LIMIT', skip, count)\n"
    "  end\n"
    "  if #fields == 0 then break end\n"
    "  local values = redis.call('HMGET', KEYS[1], unpack(fields))\n"
    "  for i = 1, #fields do\n"
    "    out[#out + 1] = fields[i]\n"
    "    out[#out + 1] = values[i]\n"
    "    bytes = bytes + #values[i]\n"
    "  end\n"
    "  skip = skip + #fields\n"
    "until #fields < count or skip >= most or bytes >= limit\n"
    "return out\n";

/* KEYS: the commit counter, then hash and sorted set of each read, write and counter.
 * ARGV: number of reads, of writes, of counters; then
 *   a read     field, 'v' and the expected version, or '=' and the expected value, or '0': no
 * record a write    field, '+' and the value, or '-' a counter  field, four decimal integers
 * Returns the number of the commit, 0 when something read has changed. */
static const char script_commit[] =
    "local key, arg = 2, 4\n"
    "local reads, writes, counters = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])\n"
    "for _ = 1, reads do\n"
    "  local there, wanted = redis.call('HGET', KEYS[key], ARGV[arg]), ARGV[arg + 1]\n"
    "  local kind = string.sub(wanted, 1, 1)\n"
    "  if kind == '0' then\n"
    "    if there then return 0 end\n"
    "  elseif not there then\n"
    "    return 0\n"
    "  elseif kind == 'v' then\n"
    "    if string.sub(there, 1, 8) ~= string.sub(wanted, 2) then return 0 end\n"
    "  elseif string.sub(there, 9) ~= string.sub(wanted, 2) then\n"
    "    return 0\n"
    "  end\n"
    "  key, arg = key + 2, arg + 2\n"
    "end\n"
    "local number = redis.call('INCR', KEYS[1])\n"
    "local version = struct.pack('<I8', number)\n"
    "for _ = 1, writes do\n"
    "  local field, value = ARGV[arg], ARGV[arg + 1]\n"
    "  if value == '-' then\n"
    "    redis.call('HDEL', KEYS[key], field)\n"
    "    redis.call('ZREM', KEYS[key + 1], field)\n"
    "  else\n"
    "    redis.call('HSET', KEYS[key], field, version .. string.sub(value, 2))\n"
    "    redis.call('ZADD', KEYS[key + 1], 0, field)\n"
    "  end\n"
    "  key, arg = key + 2, arg + 2\n"
    "end\n"
    "for _ = 1, counters do\n"
    "  local field = ARGV[arg]\n"
    "  local there = redis.call('HGET', KEYS[key], field)\n"
    "  local a, b, c, d = 0, 0, 0, 0\n"
    "  if there then a, b, c, d = struct.unpack('<i8i8i8i8', there, 9) end\n"
    "  redis.call('HSET', KEYS[key], field, version .. struct.pack('<i8i8i8i8',\n"
    "    a + ARGV[arg + 1], b + ARGV[arg + 2], c + ARGV[arg + 3], d + ARGV[arg + 4]))\n"
    "  redis.call('ZADD', KEYS[key + 1], 0, field)\n"
    "  key, arg = key + 2, arg + 5\n"
    "end\n"
    "return number\n";
