/* scripts.h - what runs inside Redis: each script is one instant.
 *
 * Records that may be read as a range share a bucket (command.c), two Redis keys:
 *   mudax:{BUCKET}:h   hash: rest of the record's key -> version (8 bytes) and value
 *   mudax:{BUCKET}:z   sorted set of the hash's fields, all with score 0, which makes Redis order
 *                      them by bytes
 * and a table has one more, which makes an order of its buckets:
 *   mudax:{TABLE}:b    sorted set of the hashes (8 bytes) of the buckets that are not empty
 * A version is the number of the commit that wrote the record; it is what a commit must find
 * unchanged. Numbers come from Redis's clock, so that a server that is started again with older
 * data never gives the same number twice. They are packed little-endian. */
#pragma once

/* KEYS: hash of each record. ARGV: its field. Returns the values, false where there is none. */
static const char script_read[] = "local out = {}\n"
                                  "for i = 1, #KEYS do\n"
                                  "  out[i] = redis.call('HGET', KEYS[i], ARGV[i])\n"
                                  "end\n"
                                  "return out\n";

/* KEYS: hash, sorted set. ARGV: low, high (as ZRANGEBYLEX takes them), 'forward' or 'backward',
 * most records, bytes to stop after. Returns 1 if it stopped before the end, else 0; then fields
 * and values in turn. */
static const char script_range[] =
    "local low, high, is_forward = ARGV[1], ARGV[2], ARGV[3] == 'forward'\n"
    "local most, limit = tonumber(ARGV[4]), tonumber(ARGV[5])\n"
    "local out, bytes, count, chunk = {0}, 0, 0, 8\n"
    "while true do\n"
    "  local take, fields = math.min(chunk, most - count), nil\n"
    "  if is_forward then\n"
    "    fields = redis.call('ZRANGEBYLEX', KEYS[2], low, high, 'LIMIT', 0, take)\n"
    "  else\n"
    "    fields = redis.call('ZREVRANGEBYLEX', KEYS[2], high, low, 'LIMIT', 0, take)\n"
    "  end\n"
    "  if #fields == 0 then return out end\n"
    "  local values = redis.call('HMGET', KEYS[1], unpack(fields))\n"
    "  for i = 1, #fields do\n"
    "    out[#out + 1] = fields[i]\n"
    "    out[#out + 1] = values[i]\n"
    "    bytes = bytes + #fields[i] + #values[i]\n"
    "  end\n"
    "  count = count + #fields\n"
    "  if #fields < take then return out end\n"
    "  if count >= most or bytes >= limit then\n"
    "    out[1] = 1\n"
    "    return out\n"
    "  end\n"
    "  if is_forward then low = '(' .. fields[#fields] else high = '(' .. fields[#fields] end\n"
    "  chunk = math.min(2 * chunk, 128)\n"
    "end\n";

/* KEYS: a table's buckets. ARGV: low, high hash (as ZRANGEBYLEX takes them), the hash of the first
 * bucket ('' if it is read from its begin) and the low field in it, most records, bytes to stop
 * after, what the names of buckets begin with. Returns as script_range does, but with the hash
 * before each field. The names are made here, which a cluster would not allow. */
static const char script_scan[] =
    "local low, high, first, field = ARGV[1], ARGV[2], ARGV[3], ARGV[4]\n"
    "local most, limit, prefix = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]\n"
    "local out, bytes, count = {0}, 0, 0\n"
    "local function hexadecimal(text)\n"
    "  return (string.gsub(text, '.', function(c)\n"
    "    return string.format('%02x', string.byte(c))\n"
    "  end))\n"
    "end\n"
    "local function take(bucket)\n"
    "  local name, chunk = prefix .. hexadecimal(bucket) .. '}:', 8\n"
    "  local from = bucket == first and field or '-'\n"
    "  while true do\n"
    "    local wanted = math.min(chunk, most - count)\n"
    "    local fields = redis.call('ZRANGEBYLEX', name .. 'z', from, '+', 'LIMIT', 0, wanted)\n"
    "    if #fields == 0 then return end\n"
    "    local values = redis.call('HMGET', name .. 'h', unpack(fields))\n"
    "    for i = 1, #fields do\n"
    "      out[#out + 1] = bucket .. fields[i]\n"
    "      out[#out + 1] = values[i]\n"
    "      bytes = bytes + #fields[i] + #values[i]\n"
    "    end\n"
    "    count = count + #fields\n"
    "    if count >= most or bytes >= limit then return end\n"
    "    if #fields < wanted then return end\n"
    "    from = '(' .. fields[#fields]\n"
    "    chunk = math.min(2 * chunk, 128)\n"
    "  end\n"
    "end\n"
    "while true do\n"
    "  local buckets = redis.call('ZRANGEBYLEX', KEYS[1], low, high, 'LIMIT', 0, 64)\n"
    "  for i = 1, #buckets do\n"
    "    take(buckets[i])\n"
    "    if count >= most or bytes >= limit then\n"
    "      out[1] = 1\n"
    "      return out\n"
    "    end\n"
    "  end\n"
    "  if #buckets < 64 then return out end\n"
    "  low = '(' .. buckets[#buckets]\n"
    "end\n";

/* KEYS: the commit counter, the hash of each read, then hash, sorted set and table's buckets of
 * each write, hash and sorted set of each counter and drop. ARGV: how many reads, writes, counters,
 * drops; then
 *   a read      field, what is expected, that: 'v' and the version, '=' and the value, or '0', ''
 *   a write     the bucket's hash ('': no table's), field, '+' and the value, or '-', ''
 *   a counter   field, four decimal integers, the limit of the first number (0: none)
 *   a drop      low, high
 * Returns the number of the commit, 0 when something read has changed, -i when the limit of counter
 * i (from 1) would be exceeded; where there are limits a list: the commit's number, then the first
 * number of each counter that has one. Whatever Redis refuses it
 * refuses at the first write, which is the counter's: then nothing has happened. */
static const char script_commit[] =
    "local key, arg = 2, 5\n"
    "local reads, writes = tonumber(ARGV[1]), tonumber(ARGV[2])\n"
    "local counters, drops = tonumber(ARGV[3]), tonumber(ARGV[4])\n"
    "for _ = 1, reads do\n"
    "  local there, kind = redis.call('HGET', KEYS[key], ARGV[arg]), ARGV[arg + 1]\n"
    "  local is_same\n"
    "  if kind == '0' then\n"
    "    is_same = not there\n"
    "  elseif kind == 'v' then\n"
    "    is_same = there and string.sub(there, 1, 8) == ARGV[arg + 2]\n"
    "  else\n"
    "    is_same = there and string.sub(there, 9) == ARGV[arg + 2]\n"
    "  end\n"
    "  if not is_same then return 0 end\n"
    "  key, arg = key + 1, arg + 3\n"
    "end\n"
    "local function first_number(key, field)\n"
    "  local there = redis.call('HGET', KEYS[key], field)\n"
    "  return there and struct.unpack('<i8', there, 9) or 0\n"
    "end\n"
    "for i = 1, counters do\n"
    "  local at = arg + 4 * writes + 6 * (i - 1)\n"
    "  local limit, more = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 1])\n"
    "  if limit > 0 and more > 0 and\n"
    "     first_number(key + 3 * writes + 2 * (i - 1), ARGV[at]) + more > limit then\n"
    "    return -i\n"
    "  end\n"
    "end\n"
    "local time, last = redis.call('TIME'), redis.call('GET', KEYS[1])\n"
    "local number = math.max(tonumber(last or 0) + 1, time[1] * 1000000 + time[2])\n"
    "local is_taken = redis.pcall('SET', KEYS[1], string.format('%.0f', number))\n"
    "if is_taken.err then return is_taken end\n"
    "local version = struct.pack('<I8', number)\n"
    "local function put(field, value)\n"
    "  redis.call('HSET', KEYS[key], field, version .. value)\n"
    "  redis.call('ZADD', KEYS[key + 1], 0, field)\n"
    "end\n"
    "for _ = 1, writes do\n"
    "  local bucket, field = ARGV[arg], ARGV[arg + 1]\n"
    "  if ARGV[arg + 2] == '+' then\n"
    "    put(field, ARGV[arg + 3])\n"
    "    if bucket ~= '' then redis.call('ZADD', KEYS[key + 2], 0, bucket) end\n"
    "  else\n"
    "    redis.call('HDEL', KEYS[key], field)\n"
    "    redis.call('ZREM', KEYS[key + 1], field)\n"
    "    if bucket ~= '' and redis.call('EXISTS', KEYS[key]) == 0 then\n"
    "      redis.call('ZREM', KEYS[key + 2], bucket)\n"
    "    end\n"
    "  end\n"
    "  key, arg = key + 3, arg + 4\n"
    "end\n"
    "local out = {number}\n"
    "for _ = 1, counters do\n"
    "  local field = ARGV[arg]\n"
    "  local there = redis.call('HGET', KEYS[key], field)\n"
    "  local a, b, c, d = 0, 0, 0, 0\n"
    "  if there then a, b, c, d = struct.unpack('<i8i8i8i8', there, 9) end\n"
    "  a, b, c, d = a + ARGV[arg + 1], b + ARGV[arg + 2], c + ARGV[arg + 3], d + ARGV[arg + 4]\n"
    "  if a == 0 and b == 0 and c == 0 and d == 0 then\n"
    "    redis.call('HDEL', KEYS[key], field)\n"
    "    redis.call('ZREM', KEYS[key + 1], field)\n"
    "  else\n"
    "    put(field, struct.pack('<i8i8i8i8', a, b, c, d))\n"
    "  end\n"
    "  if tonumber(ARGV[arg + 5]) > 0 then out[#out + 1] = a end\n"
    "  key, arg = key + 2, arg + 6\n"
    "end\n"
    "for _ = 1, drops do\n"
    "  local fields = redis.call('ZRANGEBYLEX', KEYS[key + 1], ARGV[arg], ARGV[arg + 1])\n"
    "  for i = 1, #fields, 1000 do\n"
    "    local last = math.min(i + 999, #fields)\n"
    "    redis.call('HDEL', KEYS[key], unpack(fields, i, last))\n"
    "    redis.call('ZREM', KEYS[key + 1], unpack(fields, i, last))\n"
    "  end\n"
    "  key, arg = key + 2, arg + 2\n"
    "end\n"
    "return #out == 1 and number or out\n";
