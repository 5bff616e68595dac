"""A small client of the native protocol for tests that stand outside: protocol/native/SPEC.md."""
import socket
import struct

HELLO, PING, GET, PUT, DELETE, QUERY, CREATE, DESCRIBE, LIST, DROP, STATS = range(11)
(TABLE, KEY, ITEM, CONSISTENT, CONDITION, NAMES, VALUES, FORWARD, LIMIT, START_KEY, VERDICT, TIMEOUT,
 DEFINITION, START_TABLE, COMMIT, VERSION) = range(16)
PURGE, EXPLAIN = 22, 23
TAG = 25
TAGS = 27
INDEX, PARTS = 24, 27
VERDICTS = {None: "none", 1: "hit", 2: "miss", 3: "bypass", 4: "stale"}


def pack(value):
    """MessagePack of None, bool, int, str, bytes, list, dict."""
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if 0 <= value < 128:
            return bytes([value])
        if -32 <= value < 0:
            return struct.pack("b", value)
        for head, form, low, high in ((0xcc, ">B", 0, 2**8), (0xcd, ">H", 0, 2**16), (0xce, ">I", 0, 2**32),
                                      (0xcf, ">Q", 0, 2**64), (0xd0, ">b", -2**7, 0), (0xd1, ">h", -2**15, 0),
                                      (0xd2, ">i", -2**31, 0), (0xd3, ">q", -2**63, 0)):
            if low <= value < high:
                return bytes([head]) + struct.pack(form, value)
    if isinstance(value, str):
        raw = value.encode()
        return head_of(len(raw), 0xa0, 32, 0xd9, 0xda, 0xdb) + raw
    if isinstance(value, (bytes, bytearray)):
        return head_of(len(value), None, 0, 0xc4, 0xc5, 0xc6) + bytes(value)
    if isinstance(value, list):
        return head_of(len(value), 0x90, 16, None, 0xdc, 0xdd) + b"".join(map(pack, value))
    if isinstance(value, dict):
        # Canonical: keys ascending by bytes.
        pairs = sorted((pack(key), pack(item)) for key, item in value.items()) if all(
            isinstance(key, int) for key in value) else [
                (pack(key), pack(item)) for key, item in sorted(value.items(), key=lambda pair: pair[0].encode())]
        return head_of(len(value), 0x80, 16, None, 0xde, 0xdf) + b"".join(a + b for a, b in pairs)
    raise TypeError(value)


def head_of(size, fix, limit, short, middle, long):
    if fix is not None and size < limit:
        return bytes([fix | size])
    if short is not None and size < 256:
        return bytes([short, size])
    if size < 65536:
        return bytes([middle]) + struct.pack(">H", size)
    return bytes([long]) + struct.pack(">I", size)


class Extension(bytes):
    """Contents of an extension type: decimals and sets."""


def unpack(data, at=0):
    """One value and the position behind it."""
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head >= 0xe0:
        return head - 256, at
    if head in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[head], at
    for first, form in ((0xcc, ">B"), (0xcd, ">H"), (0xce, ">I"), (0xcf, ">Q"),
                        (0xd0, ">b"), (0xd1, ">h"), (0xd2, ">i"), (0xd3, ">q")):
        if head == first:
            size = struct.calcsize(form)
            return struct.unpack(form, data[at:at + size])[0], at + size
    if head & 0xe0 == 0xa0:
        return data[at:at + (head & 31)].decode(), at + (head & 31)
    if 0xd4 <= head <= 0xd8:
        size = 1 << (head - 0xd4)
        return Extension(data[at + 1:at + 1 + size]), at + 1 + size
    sizes = {0xd9: 1, 0xda: 2, 0xdb: 4, 0xc4: 1, 0xc5: 2, 0xc6: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4,
             0xc7: 1, 0xc8: 2, 0xc9: 4}
    if head in sizes:
        count = int.from_bytes(data[at:at + sizes[head]], "big")
        at += sizes[head]
    else:
        count = head & 15
    if head in (0xd9, 0xda, 0xdb):
        return data[at:at + count].decode(), at + count
    if head in (0xc4, 0xc5, 0xc6):
        return bytes(data[at:at + count]), at + count
    if head in (0xc7, 0xc8, 0xc9):
        return Extension(data[at + 1:at + 1 + count]), at + 1 + count
    if head & 0xf0 == 0x90 or head in (0xdc, 0xdd):
        out = []
        for _ in range(count):
            item, at = unpack(data, at)
            out.append(item)
        return out, at
    if head & 0xf0 == 0x80 or head in (0xde, 0xdf):
        pairs = {}
        for _ in range(count):
            key, at = unpack(data, at)
            pairs[key], at = unpack(data, at)
        return pairs, at
    raise ValueError(f"byte {head:02x}")


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status, self.text = status, text


class Client:
    """Blocking; `ask` and `next_reply` for what is pipelined, `call` for the rest."""

    def __init__(self, address, timeout=10):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        self.input = bytearray()
        self.next_id = 1
        self.call(HELLO, {VERSION: 1})

    def close(self):
        self.socket.close()

    def ask(self, operation, parameters):
        number = self.next_id
        self.next_id += 1
        body = b"\x93" + pack(operation) + pack(number) + pack(parameters)
        self.socket.sendall(struct.pack(">I", len(body)) + body)
        return number

    def next_reply(self):
        """(id, status, meta, body)"""
        while len(self.input) < 4 or len(self.input) < 4 + int.from_bytes(self.input[:4], "big"):
            got = self.socket.recv(1 << 20)
            if not got:
                raise ConnectionError("closed")
            self.input += got
        size = 4 + int.from_bytes(self.input[:4], "big")
        reply, _ = unpack(bytes(self.input[4:size]))
        del self.input[:size]
        return reply

    def call(self, operation, parameters, with_meta=False):
        number = self.ask(operation, parameters)
        got, status, meta, body = self.next_reply()
        if got != number:
            raise ValueError(f"reply to {got} instead of {number}")
        if status != 0:
            raise Refused(status, body)
        return (body, meta or {}) if with_meta else body

    def create_table(self, name, sort=True, types=("S", "S")):
        attributes = ["p", "s"] if sort else ["p"]
        self.call(CREATE, {DEFINITION: {
            "TableName": name, "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": a, "KeyType": k} for a, k in zip(attributes, ("HASH", "RANGE"))],
            "AttributeDefinitions": [{"AttributeName": a, "AttributeType": t} for a, t in zip(attributes, types)]}})
