"""What DynamoDB is documented to answer, in memory and as plainly as can be: an oracle for tests.

Written from the developer guide and the API reference, not from mudax: it takes requests as trees (requests.py), which it never
sees spelled, and keeps a table as a dict. Values are (type, Python value): str, Decimal, bytes, bool, list, dict, frozenset.
"""
import base64
import copy
import decimal
from decimal import Decimal

decimal.getcontext().prec = 60


class Refused(Exception):
    """An error's name, and what else is told: the item, or the reasons of a transaction."""

    def __init__(self, name, more=None):
        super().__init__(name)
        self.name, self.more = name, more


def invalid():
    return Refused("ValidationException")


def decode(value):
    """DynamoDB's JSON -> (type, value)"""
    (kind, inner), = value.items()
    if kind == "N":
        return kind, Decimal(inner)
    if kind == "B":
        return kind, base64.b64decode(inner)
    if kind == "L":
        return kind, [decode(each) for each in inner]
    if kind == "M":
        return kind, decode_item(inner)
    if kind in ("SS", "NS", "BS"):
        members = frozenset(decode({kind[0]: each})[1] for each in inner)
        if len(members) != len(inner):
            raise ValueError(f"not a set: {inner}")
        return kind, members
    return kind, inner


def encode(value):
    kind, inner = value
    if kind == "N":
        return {kind: format(inner.normalize() if inner else Decimal(0), "f")}
    if kind == "B":
        return {kind: base64.b64encode(inner).decode()}
    if kind == "L":
        return {kind: [encode(each) for each in inner]}
    if kind == "M":
        return {kind: encode_item(inner)}
    if kind in ("SS", "NS", "BS"):
        return {kind: [encode((kind[0], each))[kind[0]] for each in sorted(inner)]}
    return {kind: inner}


def decode_item(item):
    return {name: decode(value) for name, value in item.items()}


def encode_item(item):
    return {name: encode(value) for name, value in item.items()}


def order(value):
    """What strings, numbers and bytes are compared by."""
    return value[1].encode() if value[0] == "S" else value[1]


def find(item, path):
    """The value at a path, or None."""
    here = item.get(path[0])
    for step in path[1:]:
        if here is None:
            return None
        kind, inner = here
        if isinstance(step, int):
            here = inner[step] if kind == "L" and step < len(inner) else None
        else:
            here = inner.get(step) if kind == "M" else None
    return here


# ---- conditions and filters: trees of tuples

def operand(tree, item):
    if tree[0] == "value":
        return tree[1]
    found = find(item, tree[1])
    if tree[0] == "path":
        return found
    if found is None or found[0] in ("N", "BOOL", "NULL"):  # size
        return None
    return "N", Decimal(len(found[1].encode() if found[0] == "S" else found[1]))


def compare(sign, a, b):
    if sign == "<>":
        return a is None or b is None or a != b
    if a is None or b is None:
        return False
    if sign == "=":
        return a == b
    if a[0] != b[0] or a[0] not in ("S", "N", "B"):
        return False
    a, b = order(a), order(b)
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign]


def contains(whole, part):
    if whole is None or part is None:
        return False
    kind, inner = whole
    if kind in ("S", "B"):
        return part[0] == kind and part[1] in inner
    if kind in ("SS", "NS", "BS"):
        return part[0] == kind[0] and part[1] in inner
    return kind == "L" and part in inner


def holds(tree, item):
    kind = tree[0]
    if kind == "and":
        return holds(tree[1], item) and holds(tree[2], item)
    if kind == "or":
        return holds(tree[1], item) or holds(tree[2], item)
    if kind == "not":
        return not holds(tree[1], item)
    if kind == "compare":
        return compare(tree[1], operand(tree[2], item), operand(tree[3], item))
    first = operand(tree[1], item)
    if kind == "between":
        return compare(">=", first, operand(tree[2], item)) and compare("<=", first, operand(tree[3], item))
    if kind == "in":
        return any(compare("=", first, operand(each, item)) for each in tree[2])
    if kind == "attribute_exists":
        return first is not None
    if kind == "attribute_not_exists":
        return first is None
    second = operand(tree[2], item)
    if kind == "attribute_type":
        return first is not None and first[0] == second[1]
    if kind == "begins_with":
        return (first is not None and second is not None and first[0] == second[0] and first[0] in ("S", "B") and
                first[1].startswith(second[1]))
    return contains(first, second)


def paths_of(tree):
    if tree[0] in ("path", "size"):
        return [tree[1]]
    return [path for each in tree[1:] if isinstance(each, (tuple, list)) and tree[0] != "value"
            for path in (paths_of(each) if isinstance(each, tuple) else [p for one in each for p in paths_of(one)])]


# ---- projections and updates

def overlap(paths):
    """Does one of them lie in another, or take for a list what another takes for a map?"""
    for i, a in enumerate(paths):
        for b in paths[i + 1:]:
            same = 0
            while same < min(len(a), len(b)) and a[same] == b[same]:
                same += 1
            if same == min(len(a), len(b)) or (isinstance(a[same], int) != isinstance(b[same], int)):
                return True
    return False


def project(item, paths):
    """Only what is at these paths; elements of lists close up."""
    tree = {}
    for path in paths:
        if find(item, path) is not None:
            here = tree
            for step in path:
                here = here.setdefault(step, {})

    def pick(value, wanted):
        if not wanted:
            return value
        if value[0] == "M":
            return "M", {name: pick(value[1][name], wanted[name]) for name in wanted}
        return "L", [pick(value[1][place], wanted[place]) for place in sorted(wanted)]
    return {name: pick(item[name], wanted) for name, wanted in tree.items()}


def exact(number):
    """A sum as it may be stored."""
    if len(number.normalize().as_tuple().digits) > 38:
        raise invalid()
    return "N", number


def set_value(tree, item):
    """The right side of a SET."""
    kind = tree[0]
    if kind == "value":
        return tree[1]
    if kind == "path":
        found = find(item, tree[1])
        if found is None:
            raise invalid()
        return found
    if kind == "if_not_exists":
        other = set_value(tree[2], item) if tree[2][0] == "value" or find(item, tree[1]) is None else None
        return find(item, tree[1]) or other
    a, b = set_value(tree[1], item), set_value(tree[2], item)
    if a[0] != b[0] or a[0] != ("L" if kind == "list_append" else "N"):
        raise invalid()
    if kind == "list_append":
        return "L", a[1] + b[1]
    return exact(a[1] + b[1] if kind == "+" else a[1] - b[1])


def paths_of_update(actions):
    """Also of what is on the right."""
    def right_of(tree):
        if tree[0] == "if_not_exists":
            return [tree[1], *right_of(tree[2])]
        return [tree[1]] if tree[0] == "path" else [] if tree[0] == "value" else right_of(tree[1]) + right_of(tree[2])
    return [path for sign, path, right in actions for path in [path] + (right_of(right) if sign == "SET" else [])]


def kind_made(tree):
    """The type of the right side of a SET; None: only the item can tell."""
    if tree[0] == "if_not_exists":
        return kind_made(tree[2])
    return {"value": lambda: tree[1][0], "path": lambda: None, "list_append": lambda: "L"}.get(tree[0], lambda: "N")()


def added(sign, old, value):
    """ADD and DELETE: the new value, None: no attribute."""
    if sign == "ADD" and old is None:
        return value
    if old is None:
        return None
    if old[0] != value[0]:
        raise invalid()
    if value[0] == "N":
        return exact(old[1] + value[1])
    members = old[1] | value[1] if sign == "ADD" else old[1] - value[1]
    return (old[0], members) if members else None


def parent(item, path):
    """The dict or list that holds the last step of a path."""
    if len(path) == 1:
        return item
    above = find(item, path[:-1])
    if above is None or above[0] != ("L" if isinstance(path[-1], int) else "M"):
        raise invalid()
    return above[1]


def update(item, actions):
    """A new item. actions: (sign, path, right side or value)"""
    new, removed = copy.deepcopy(item), []
    results = []
    for sign, path, right in actions:
        if sign == "SET":
            results.append((path, set_value(right, item)))
        elif sign == "REMOVE":
            results.append((path, None))
        else:
            results.append((path, added(sign, find(item, path), right)))
    for path, value in sorted(results, key=lambda pair: [(isinstance(step, str), step) for step in pair[0]]):
        holder = parent(new, path)
        if isinstance(path[-1], int):
            if value is None:
                removed += [(holder, path[-1])] if find(item, path) is not None else []
            elif path[-1] < len(holder):
                holder[path[-1]] = copy.deepcopy(value)
            else:
                holder.append(copy.deepcopy(value))
        elif value is None:
            holder.pop(path[-1], None)
        else:
            holder[path[-1]] = copy.deepcopy(value)
    for holder, place in sorted(removed, key=lambda pair: -pair[1]):
        del holder[place]
    return new


# ---- a table

class Table:
    """keys: [(name, type)], one or two. indexes: name -> {"keys", "local", "project": ALL | KEYS_ONLY | list of names}"""

    def __init__(self, keys, indexes):
        self.keys, self.indexes, self.items = keys, indexes, {}

    def key_of(self, item):
        return tuple(item[name] for name, _ in self.keys)

    def check_scalars(self, paths):
        """Keys of the table and of its indexes have no parts that a path could name."""
        keys = {name for keys in [self.keys, *(index["keys"] for index in self.indexes.values())] for name, _ in keys}
        if any(len(path) > 1 and path[0] in keys for path in paths):
            raise invalid()

    def check_types(self, actions):
        """An update that can only make another type of an index's key is refused whatever the item is."""
        kinds = dict(key for index in self.indexes.values() for key in index["keys"])
        for sign, path, right in actions:
            kind = None if right is None else right[0] if sign != "SET" else kind_made(right)
            if len(path) == 1 and path[0] in kinds and kind not in (None, kinds[path[0]]):
                raise invalid()

    def check(self, item):
        """Of an item that is to be stored: keys of indexes have their type, and are not empty."""
        for index in self.indexes.values():
            for name, kind in index["keys"]:
                if name in item and (item[name][0] != kind or item[name][1] in ("", b"")):
                    raise invalid()

    def misfits(self, item):
        """Has a key of an index another type?"""
        return any(name in item and item[name][0] != kind for index in self.indexes.values() for name, kind in index["keys"])

    def check_write(self, write):
        """What a write is refused for before anything else is looked at, alone or in a transaction."""
        actions = write.get("actions", [])
        if overlap([path for _, path, _ in actions]):
            raise invalid()
        if any(path[0] == name for _, path, _ in actions for name, _ in self.keys):
            raise invalid()
        self.check_scalars(paths_of_update(actions))
        given = dict(write.get("item", {}))
        given.update({path[0]: right[1] for sign, path, right in actions if sign == "SET" and len(path) == 1 and right[0] == "value"})
        for index in self.indexes.values():
            if any(name in given and given[name][0] == kind and given[name][1] in ("", b"") for name, kind in index["keys"]):
                raise invalid()

    # -- writes: {"kind", "item" or "key", "condition", "actions", "returns", "failed"}

    def outcome(self, write):
        """(key, old, new): what a write would do; raises what it would be refused with."""
        key = self.key_of(write.get("item") or write["key"])
        actions = write.get("actions", [])
        self.check_write(write)
        self.check_types(actions)
        if write["kind"] == "put":
            self.check(write["item"])
        old = self.items.get(key)
        if write.get("condition") and not holds(write["condition"], old or {}):
            raise Refused("ConditionalCheckFailedException", old if write.get("failed") else None)
        if write["kind"] == "put":
            return key, old, write["item"]
        if write["kind"] == "delete":
            return key, old, None
        if write["kind"] == "check":
            return key, old, old
        new = update(old or dict(write["key"]), actions)
        self.check(new)
        return key, old, new

    def store(self, key, new):
        if new is None:
            self.items.pop(key, None)
        else:
            self.items[key] = new

    def write(self, write):
        key, old, new = self.outcome(write)
        self.store(key, new)
        returns = write.get("returns", "NONE")
        if returns == "ALL_OLD":
            return old or {}
        if returns == "ALL_NEW":
            return new
        if returns in ("UPDATED_OLD", "UPDATED_NEW"):
            return project((old if returns == "UPDATED_OLD" else new) or {}, [path for _, path, _ in write["actions"]])
        return {}

    def batch_write(self, writes):
        keys = [self.key_of(write.get("item") or write["key"]) for write in writes]
        if len(set(map(repr, keys))) != len(keys):
            raise invalid()
        for write in writes:
            if "item" in write:
                self.check(write["item"])
        for key, write in zip(keys, writes):
            self.store(key, write.get("item"))

    def transact(self, writes):
        for write in writes:
            self.check_write(write)
        first = next((write for write in writes if self.misfits(write.get("item", {}))), None)
        if first is not None:
            raise Refused("TransactionCanceledException", [("ValidationError" if write is first else "None", None) for write in writes])
        keys = [repr(self.key_of(write.get("item") or write["key"])) for write in writes]
        if len(set(keys)) != len(keys):
            raise invalid()
        reasons, done = [], []
        for write in writes:
            try:
                done.append(self.outcome(write))
                reasons.append(("None", None))
            except Refused as refused:
                code = {"ConditionalCheckFailedException": "ConditionalCheckFailed", "ValidationException": "ValidationError"}
                reasons.append((code[refused.name], refused.more))
        if any(code != "None" for code, _ in reasons):
            raise Refused("TransactionCanceledException", reasons)
        for key, _, new in done:
            self.store(key, new)

    # -- reads

    def get(self, key, paths=None):
        if paths and overlap(paths):
            raise invalid()
        self.check_scalars(paths or [])
        item = self.items.get(self.key_of(key))
        return item if item is None or not paths else project(item, paths)

    def entries(self, index):
        """What a table or an index holds, whole items in their order within a partition."""
        keys = self.indexes[index]["keys"] if index else self.keys
        found = [item for item in self.items.values() if all(name in item for name, _ in keys)]
        names = [name for name, _ in keys[1:]] + ([name for name, _ in self.keys] if index else [])
        return sorted(found, key=lambda item: [order(item[name]) for name in names])

    def held(self, index):
        """The names of what an index holds of an item; None: all."""
        kept = self.indexes[index]["project"]
        if kept == "ALL":
            return None
        return {name for name, _ in self.keys + self.indexes[index]["keys"]} | set(kept if kept != "KEYS_ONLY" else ())

    def projected(self, item, index):
        """An item as an index holds it."""
        held = self.held(index) if index else None
        return item if held is None else {name: value for name, value in item.items() if name in held}

    def shown(self, item, read):
        """An item as Select and ProjectionExpression want it."""
        index = read.get("index")
        if read.get("paths"):
            return project(item, read["paths"])
        return item if read.get("select") == "ALL_ATTRIBUTES" else self.projected(item, index)

    def check_read(self, read):
        if read.get("index") and read["index"] not in self.indexes:
            raise invalid()
        index = self.indexes.get(read.get("index"))
        if read.get("paths") and overlap(read["paths"]):
            raise invalid()
        self.check_scalars(read.get("paths", []) + (paths_of(read["filter"]) if read.get("filter") else []))
        if not index or index["local"]:
            return
        if read.get("consistent") or read.get("select") == "ALL_ATTRIBUTES" and index["project"] != "ALL":
            raise invalid()
        held = self.held(read["index"])
        wanted = read.get("paths", []) + (paths_of(read["filter"]) if read.get("filter") else [])
        if held is not None and any(path[0] not in held for path in wanted):
            raise invalid()

    def end_key(self, item, index):
        return {name: item[name] for name, _ in self.keys + (self.indexes[index]["keys"] if index else [])}

    def query(self, read):
        """(items, ScannedCount, LastEvaluatedKey, whether the latter may be missing)"""
        self.check_read(read)
        index = read.get("index")
        keys = self.indexes[index]["keys"] if index else self.keys
        if read.get("filter") and any(path[0] == name for path in paths_of(read["filter"]) for name, _ in keys):
            raise invalid()
        found = [item for item in self.entries(index) if item[keys[0][0]] == read["hash"] and
                 (not read.get("range") or holds(read["range"], item))]
        names = [name for name, _ in keys[1:]] + ([name for name, _ in self.keys] if index else [])
        if read.get("backward"):
            found.reverse()
        if read.get("start"):
            begin = [order(read["start"][name]) for name in names]
            found = [item for item in found if (([order(item[name]) for name in names] < begin) if read.get("backward") else
                                                ([order(item[name]) for name in names] > begin))]
        limit = read.get("limit") or len(found) + 1
        examined, rest = found[:limit], found[limit:]
        end = self.end_key(examined[-1], index) if len(examined) == limit else None
        kept = [item for item in examined if not read.get("filter") or holds(read["filter"], item)]
        return [self.shown(item, read) for item in kept], len(examined), end, not rest

    def scan(self, read):
        """All pages: (items in no order, ScannedCount)"""
        self.check_read(read)
        found = self.entries(read.get("index"))
        kept = [item for item in found if not read.get("filter") or holds(read["filter"], item)]
        return [self.shown(item, read) for item in kept], len(found)
