"""Random tables and requests: as trees for the model, and as DynamoDB's JSON. All from one random.Random."""
import re
from decimal import Decimal

import model

STRINGS = ["a", "aa", "ab", "b", "\u00e9", "\U0001f600", "a\u0000", "A", "z" * 40]
NUMBERS = [Decimal(text) for text in ("0", "1", "-1", "2", "10", "0.5", "-0.5", "1E+3", "-1E-7", "123456789012345678901234567890")]
BYTES = [b"\x00", b"\x00\x00", b"\x01", b"a", b"\xff", b"\xff\x00", b"ab"]
NAMES = ["a", "b", "c", "d", "g", "h", "size", "x.y", "-"]
TYPES = ["S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"]


class Writer:
    """Spells trees, with names and values of their own."""

    def __init__(self, random):
        self.random, self.names, self.values = random, {}, {}

    def name(self, name):
        if re.fullmatch("[a-z]", name) and self.random.random() < 0.6:
            return name
        for short, known in self.names.items():
            if known == name:
                return short
        self.names[f"#n{len(self.names)}"] = name
        return f"#n{len(self.names) - 1}"

    def value(self, value):
        spelled = model.encode(value)
        for short, known in self.values.items():
            if known == spelled and self.random.random() < 0.5:
                return short
        self.values[f":v{len(self.values)}"] = spelled
        return f":v{len(self.values) - 1}"

    def path(self, path):
        return self.name(path[0]) + "".join(f"[{step}]" if isinstance(step, int) else "." + self.name(step) for step in path[1:])

    def operand(self, tree):
        if tree[0] == "value":
            return self.value(tree[1])
        return self.path(tree[1]) if tree[0] == "path" else f"size({self.path(tree[1])})"

    def condition(self, tree, outer=0):
        kind = tree[0]
        strength = {"or": 1, "and": 2, "not": 3}.get(kind, 4)
        if kind in ("or", "and"):
            text = f"{self.condition(tree[1], strength)} {kind.upper()} {self.condition(tree[2], strength + 1)}"
        elif kind == "not":
            text = f"NOT {self.condition(tree[1], 4)}"
        elif kind == "compare":
            text = f"{self.operand(tree[2])} {tree[1]} {self.operand(tree[3])}"
        elif kind == "between":
            text = f"{self.operand(tree[1])} BETWEEN {self.operand(tree[2])} AND {self.operand(tree[3])}"
        elif kind == "in":
            text = f"{self.operand(tree[1])} IN ({', '.join(map(self.operand, tree[2]))})"
        else:
            text = f"{kind}({', '.join(map(self.operand, tree[1:]))})"
        return f"({text})" if strength < outer or outer and self.random.random() < 0.1 else text

    def set_value(self, tree):
        if tree[0] in ("value", "path"):
            return self.operand(tree)
        if tree[0] == "if_not_exists":
            return f"if_not_exists({self.path(tree[1])}, {self.set_value(tree[2])})"
        if tree[0] == "list_append":
            return f"list_append({self.set_value(tree[1])}, {self.set_value(tree[2])})"
        return f"{self.set_value(tree[1])} {tree[0]} {self.set_value(tree[2])}"

    def actions(self, actions):
        sections = {}
        for sign, path, right in actions:
            text = self.path(path)
            text += {"SET": " = ", "REMOVE": ""}.get(sign, " ")
            text += "" if sign == "REMOVE" else self.set_value(right) if sign == "SET" else self.value(right)
            sections.setdefault(sign, []).append(text)
        order = list(sections)
        self.random.shuffle(order)
        return " ".join(f"{sign} {', '.join(sections[sign])}" for sign in order)

    def into(self, body):
        if self.random.random() < 0.004:  # what is not used is refused
            self.names["#unused"] = "a"
        if self.names:
            body["ExpressionAttributeNames"] = self.names
        if self.values:
            body["ExpressionAttributeValues"] = self.values
        return body


LEGACY_SIGNS = {"=": "EQ", "<>": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}


def legacy_leaf(tree):
    """(attribute, condition) as it was spelled before expressions, or None."""
    operands = tree[2:] if tree[0] == "compare" else tree[1:]
    if operands[0][0] != "path" or len(operands[0][1]) > 1:
        return None
    values = operands[1] if tree[0] == "in" else operands[1:]
    if any(value[0] != "value" for value in values) or tree[0] in ("in", "contains") and any(value[1][0] not in "SNB" for value in values):
        return None
    if tree[0] == "in" and len({value[1][0] for value in values}) > 1:
        return None  # which there must be of one type
    sign = {"compare": lambda: LEGACY_SIGNS[tree[1]], "between": lambda: "BETWEEN", "in": lambda: "IN", "begins_with": lambda: "BEGINS_WITH",
            "contains": lambda: "CONTAINS", "attribute_exists": lambda: "NOT_NULL", "attribute_not_exists": lambda: "NULL"}.get(tree[0])
    if sign is None:
        return None
    condition = {"ComparisonOperator": sign()}
    if values:
        condition["AttributeValueList"] = [model.encode(value[1]) for value in values]
    return operands[0][1][0], condition


def legacy_condition(tree):
    """({attribute: condition}, AND or OR), or None."""
    leaves = tree[1:] if tree[0] in ("and", "or") else [tree]
    if any(leaf[0] in ("and", "or", "not") for leaf in leaves):
        return None
    pairs = [legacy_leaf(leaf) for leaf in leaves]
    if None in pairs or len({name for name, _ in pairs}) != len(pairs):
        return None
    return dict(pairs), "OR" if tree[0] == "or" else "AND"


def legacy_updates(actions):
    """AttributeUpdates, or None."""
    updates = {}
    for sign, path, right in actions:
        if len(path) > 1 or path[0] in updates or sign == "SET" and right[0] != "value":
            return None
        updates[path[0]] = {"Action": {"SET": "PUT", "REMOVE": "DELETE"}.get(sign, sign)}
        if sign != "REMOVE":
            updates[path[0]]["Value"] = model.encode(right[1] if sign == "SET" else right)
    return updates


def respelled(body, random):
    """The same request, its numbers written otherwise."""
    if isinstance(body, list):
        return [respelled(each, random) for each in body]
    if not isinstance(body, dict):
        return body
    if list(body) == ["N"] and isinstance(body["N"], str):
        sign, digits, exponent = Decimal(body["N"]).as_tuple()
        text = "".join(map(str, digits))
        return {"N": random.choice([body["N"], f"{'-' * sign}{text}E{exponent}", f"{'-' * sign}0{text}.0e{exponent:+}",
                                    f"{'-' * sign}0.{text}E{exponent + len(text)}"])}
    return {name: respelled(inner, random) for name, inner in body.items()}


def schema(keys):
    return [{"AttributeName": name, "KeyType": kind} for (name, _), kind in zip(keys, ("HASH", "RANGE"))]


def attributes(keys):
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in dict(keys).items()]


def index_definition(name, index):
    projection = {"ProjectionType": index["project"]} if isinstance(index["project"], str) else {
        "ProjectionType": "INCLUDE", "NonKeyAttributes": index["project"]}
    return {"IndexName": name, "KeySchema": schema(index["keys"]), "Projection": projection}


class Maker:
    """A table and requests on it. A request is (operation, body, plan): the plan is what the model is told."""

    def __init__(self, random):
        self.random = random
        kinds = random.choices("SNB", k=4)
        self.keys = [("p", kinds[0])] + ([("s", kinds[1])] if random.random() < 0.7 else [])
        self.indexes = {}
        for name, keys, local in (("by-G1", [("g", kinds[2]), ("h", kinds[3])], False), ("by-G2", [("h", kinds[3])], False),
                                  ("by-G3", [("g", kinds[2]), ("p", kinds[0])], False), ("by-L1", [("p", kinds[0]), ("h", kinds[3])], True)):
            if random.random() < 0.6 and (not local or len(self.keys) == 2):
                self.indexes[name] = {"keys": keys, "local": local, "project": random.choice(["ALL", "KEYS_ONLY", ["a", "x.y"]])}
        # Indexes come and go, or items may hold what does not fit them.
        self.is_altered = random.random() < 0.5
        self.kinds = dict([*self.keys, *(key for index in self.indexes.values() for key in index["keys"])])
        if self.is_altered:
            self.kinds.update(g=kinds[2], h=kinds[3])
        self.is_large = random.random() < 0.08  # pages end at 1 MB
        self.first = dict(self.indexes)  # those that the table is made with
        self.starts = []  # (partition, index, key): where later pages may begin
        self.reads = []  # that were made
        self.items = {}  # those of the model, to look at

    def definition(self):
        body = {"TableName": "@T@", "BillingMode": "PAY_PER_REQUEST", "KeySchema": schema(self.keys),
                "AttributeDefinitions": attributes([*self.keys, *(key for index in self.first.values() for key in index["keys"])])}
        for name, index in self.first.items():
            body.setdefault("LocalSecondaryIndexes" if index["local"] else "GlobalSecondaryIndexes", []).append(index_definition(name, index))
        return body

    def alter(self):
        """UpdateTable: an index goes, or comes."""
        name = self.random.choice(["by-G1", "by-G2", "by-G3"])
        body = {"TableName": "@T@"}
        if name in self.indexes:
            body["GlobalSecondaryIndexUpdates"] = [{"Delete": {"IndexName": name}}]
            index = None
            self.indexes = {known: index for known, index in self.indexes.items() if known != name}
        else:
            keys = {"by-G1": "gh", "by-G2": "h", "by-G3": "gp"}[name]
            index = {"keys": [(key, self.kinds[key]) for key in keys], "local": False, "project": self.random.choice(["ALL", "KEYS_ONLY", ["a", "x.y"]])}
            body["AttributeDefinitions"] = attributes(index["keys"])
            body["GlobalSecondaryIndexUpdates"] = [{"Create": index_definition(name, index)}]
            self.indexes = {**self.indexes, name: index}
        return "UpdateTable", body, {"name": name, "index": index}

    # -- values, items, paths

    def scalar(self, kind):
        if kind == "N" and self.random.random() < 0.2:  # sums of few of them still have 38 digits at most
            return kind, Decimal(self.random.randint(-10 ** 12, 10 ** 12)).scaleb(self.random.randint(-10, 10))
        return kind, self.random.choice({"S": STRINGS, "N": NUMBERS, "B": BYTES}[kind])

    def value(self, depth=0, kinds=TYPES):
        random = self.random
        kind = random.choice([kind for kind in kinds if depth < 3 or kind not in "LM"])
        if kind in ("S", "N", "B"):
            return (kind, "" if kind == "S" else b"") if kind != "N" and random.random() < 0.1 else self.scalar(kind)
        if kind == "BOOL":
            return kind, random.random() < 0.5
        if kind == "NULL":
            return kind, True
        if kind == "L":
            return kind, [self.value(depth + 1) for _ in range(random.randint(0, 3))]
        if kind == "M":
            return kind, {name: self.value(depth + 1) for name in random.sample(NAMES, random.randint(0, 3))}
        return kind, frozenset(self.scalar(kind[0])[1] for _ in range(random.randint(1, 3)))

    def stored(self):
        """An item of the table, or nothing."""
        return self.random.choice(list(self.items.values())) if self.items else {}

    def key(self):
        if self.items and self.random.random() < 0.4:
            return {name: value for name, value in self.stored().items() if name in dict(self.keys)}
        # Few partitions, so that requests meet; the sort keys are all that there are.
        return {name: (kind, self.random.choice({"S": STRINGS, "N": NUMBERS, "B": BYTES}[kind][:3 if name == "p" else None]))
                for name, kind in self.keys}

    def item(self):
        item = {name: self.value() for name in self.random.sample(NAMES, self.random.randint(0, 5))}
        for name, kind in self.kinds.items():
            if name in item and (self.is_altered or self.random.random() < 0.97):
                item[name] = self.scalar(kind)
            elif self.random.random() < 0.5:
                item[name] = self.scalar(kind)
        if self.is_large:
            item["pad"] = "S", self.random.choice("xyz") * self.random.randint(50000, 200000)
        return {**item, **self.key()}

    def path(self, names=NAMES):
        if self.random.random() < 0.5:
            found = self.known_path(names)
            if found:
                return found
        path = [self.random.choice(names)]
        while len(path) < 4 and self.random.random() < 0.15:
            path.append(self.random.choice(NAMES) if self.random.random() < 0.5 else self.random.randint(0, 3))
        return path

    def known_path(self, names):
        """A path to something that an item has, if any."""
        here = "M", {name: value for name, value in self.stored().items() if name in names}
        path = []
        while here[0] in "LM" and here[1] and (not path or self.random.random() < 0.7):
            step = self.random.choice(sorted(here[1])) if here[0] == "M" else self.random.randrange(len(here[1]))
            path.append(step)
            here = here[1][step]
        return path

    def near(self, path):
        """A value that some item has at a path, or any."""
        return self.random.random() < 0.4 and model.find(self.stored(), path) or self.value()

    # -- conditions

    def leaf(self, names):
        random, path = self.random, ("path", self.path(names))
        kind = random.choice(["compare", "compare", "compare", "size", "between", "in", "attribute_exists", "attribute_not_exists",
                              "attribute_type", "begins_with", "contains"])
        if kind == "compare":
            sign = random.choice(["=", "<>", "<", "<=", ">", ">="])
            other = ("value", self.near(path[1]))
            if sign not in ("=", "<>") and other[1][0] not in ("S", "N", "B"):
                other = "value", self.scalar(random.choice("SNB"))
            if random.random() < 0.2:
                other = ("path", self.path(names))
                if other == path:
                    return "attribute_exists", path
            return ("compare", sign, path, other) if random.random() < 0.8 else ("compare", sign, other, path)
        if kind == "size":
            return "compare", random.choice(["=", "<", "<=", ">", ">="]), ("size", path[1]), ("value", ("N", Decimal(random.randint(0, 3))))
        if kind == "between":
            type_ = random.choice("SNB")
            low, high = sorted((self.scalar(type_), self.scalar(type_)), key=model.order)
            return "between", path, ("value", low), ("value", high)
        if kind == "in":
            return "in", path, [("value", self.near(path[1])) for _ in range(random.randint(1, 4))]
        if kind == "attribute_type":
            return kind, path, ("value", ("S", random.choice([self.near(path[1])[0], random.choice(TYPES)])))
        if kind == "begins_with":
            return kind, path, ("value", self.scalar(random.choice("SB")))
        if kind == "contains":
            return kind, path, ("value", self.scalar(random.choice("SNB")))
        return kind, path

    def condition(self, names=NAMES + ["p", "s"], depth=0):
        choice = self.random.random()
        if depth > 2 or choice < 0.5:
            return self.leaf(names)
        if choice < 0.65:
            return "not", self.condition(names, depth + 1)
        return "and" if choice < 0.83 else "or", self.condition(names, depth + 1), self.condition(names, depth + 1)

    # -- updates

    def set_value(self, path):
        random = self.random
        kind = random.choice(["value", "value", "path", "if_not_exists", "list_append", "+", "-"])
        if self.is_altered and path[0] in self.kinds:
            kind = "value"
        if kind == "value":
            plain = len(path) == 1 and path[0] in self.kinds and (self.is_altered or random.random() < 0.9)
            return kind, self.scalar(self.kinds[path[0]]) if plain else self.value(1)
        if kind == "path":
            return kind, self.path()
        if kind == "if_not_exists":
            return kind, self.path(), ("value", self.value(1))
        type_ = "L" if kind == "list_append" else "N"
        default = ("value", self.value(2, [type_]))
        first = random.choice([("path", path), ("if_not_exists", path, default)])
        return (kind, first, default) if random.random() < 0.7 else (kind, default, first)

    def actions(self):
        random, actions = self.random, []
        for _ in range(random.choice([1, 1, 2, 3])):
            path = self.path(NAMES + (["p"] if random.random() < 0.02 else []))
            if any(path == other for _, other, _ in actions):
                continue
            sign = random.choice(["SET", "SET", "SET", "REMOVE", "ADD", "DELETE"])
            if self.is_altered and path[0] in self.kinds and path[0] not in dict(self.keys):
                path, sign = path[:1], random.choice(["SET", "REMOVE"])
            right = {"SET": lambda: self.set_value(path), "REMOVE": lambda: None, "ADD": lambda: self.value(3, ["N", "SS", "NS", "BS"]),
                     "DELETE": lambda: self.value(3, ["SS", "NS", "BS"])}[sign]()
            actions.append((sign, path, right))
        return sorted(actions, key=lambda action: action[0])

    # -- requests

    def change(self, kinds, is_alone):
        """A write and how it is spelled; alone or as part of a transaction."""
        random, writer = self.random, Writer(self.random)
        plan = {"kind": random.choice(kinds)}
        body = {"TableName": "@T@"}
        if plan["kind"] == "put":
            plan["item"] = self.item()
            body["Item"] = model.encode_item(plan["item"])
        else:
            plan["key"] = self.key()
            body["Key"] = model.encode_item(plan["key"])
        if plan["kind"] == "update":
            plan["actions"] = self.actions()
            body["UpdateExpression"] = writer.actions(plan["actions"])
        if plan["kind"] == "check" or random.random() < 0.35:
            plan["condition"] = self.condition()
            body["ConditionExpression"] = writer.condition(plan["condition"])
            plan["failed"] = random.random() < 0.5
            if plan["failed"]:
                body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if is_alone:
            steady = all(isinstance(step, str) for _, path, _ in plan.get("actions", []) for step in path)
            plan["returns"] = random.choice(["NONE", "ALL_OLD"] + (["ALL_NEW"] if "actions" in plan else []) + (
                ["UPDATED_OLD", "UPDATED_NEW"] if "actions" in plan and steady else []))
            body["ReturnValues"] = plan["returns"]
        if is_alone and self.spell_legacy(plan, body):
            return plan, body
        plan["unused"] = "#unused" in writer.into(body).get("ExpressionAttributeNames", {})
        return plan, body

    def spell_legacy(self, plan, body):
        """Spells a write with the parameters that are older than expressions, sometimes and if they can say it."""
        condition = legacy_condition(plan["condition"]) if "condition" in plan else ({}, "AND")
        updates = legacy_updates(plan["actions"]) if "actions" in plan else {}
        if self.random.random() < 0.7 or condition is None or updates is None or not condition[0] and not updates:
            return False
        body.pop("ConditionExpression", None)
        body.pop("UpdateExpression", None)
        if "actions" in plan:
            body["AttributeUpdates"] = updates
        if condition[0]:
            body["Expected"] = condition[0]
            if len(condition[0]) > 1 or self.random.random() < 0.2:
                body["ConditionalOperator"] = condition[1]
        return True

    def write(self):
        plan, body = self.change(["put", "put", "update", "update", "update", "delete"], True)
        return {"put": "PutItem", "update": "UpdateItem", "delete": "DeleteItem"}[plan["kind"]], body, plan

    def mostly_apart(self, plans):
        """Writes of different keys: two of one are refused."""
        if self.random.random() < 0.1:
            return plans
        first = {}
        for plan in plans:
            of = plan.get("item") or plan["key"]
            first.setdefault(repr([of[name] for name, _ in self.keys]), plan)
        return list(first.values())

    def batch_write(self):
        plans = self.mostly_apart([{"kind": "put", "item": self.item()} if self.random.random() < 0.7 else {"kind": "delete", "key": self.key()}
                                   for _ in range(self.random.randint(1, 8))])
        parts = [{"PutRequest": {"Item": model.encode_item(plan["item"])}} if "item" in plan else
                 {"DeleteRequest": {"Key": model.encode_item(plan["key"])}} for plan in plans]
        return "BatchWriteItem", {"RequestItems": {"@T@": parts}}, plans

    def transact(self):
        pairs = [self.change(["put", "update", "update", "delete", "check"], False) for _ in range(self.random.randint(1, 5))]
        kept = self.mostly_apart([plan for plan, _ in pairs])
        pairs = [pair for pair in pairs if any(pair[0] is plan for plan in kept)]
        return "TransactWriteItems", {"TransactItems": [
            {{"put": "Put", "update": "Update", "delete": "Delete", "check": "ConditionCheck"}[plan["kind"]]: body}
            for plan, body in pairs]}, [plan for plan, _ in pairs]

    def projection(self, writer, body, names=NAMES + ["p", "s"]):
        paths = []
        for _ in range(self.random.randint(1, 3)):
            path = self.path(names)
            paths += [path] if path not in paths else []
        body["ProjectionExpression"] = ", ".join(map(writer.path, paths))
        return paths

    def get(self):
        writer, plan, body = Writer(self.random), {"key": self.key()}, {"TableName": "@T@"}
        body["Key"] = model.encode_item(plan["key"])
        if self.random.random() < 0.3:
            plan["paths"] = self.projection(writer, body)
        if self.random.random() < 0.2:
            body["ConsistentRead"] = True
        plan["unused"] = "#unused" in writer.into(body).get("ExpressionAttributeNames", {})
        return "GetItem", body, plan

    def several(self):
        keys = []
        for _ in range(self.random.randint(1, 12)):
            key = self.key()
            keys += [key] if key not in keys else []
        if self.random.random() < 0.3:
            return "TransactGetItems", {"TransactItems": [{"Get": {"TableName": "@T@", "Key": model.encode_item(key)}} for key in keys]}, keys
        return "BatchGetItem", {"RequestItems": {"@T@": {"Keys": [model.encode_item(key) for key in keys]}}}, keys

    def read(self, writer):
        """What Query and Scan have in common."""
        random, plan, body = self.random, {}, {"TableName": "@T@"}
        if self.indexes and random.random() < 0.5:
            plan["index"] = body["IndexName"] = random.choice(list(self.indexes))
        index = self.indexes.get(plan.get("index"))
        held = NAMES if not index or index["project"] == "ALL" else (
            [name for name, _ in self.keys + index["keys"]] + (index["project"] if isinstance(index["project"], list) else []))
        if random.random() < 0.15:
            plan["paths"] = self.projection(writer, body, held)
        elif random.random() < 0.2:
            plan["select"] = body["Select"] = random.choice(["ALL_ATTRIBUTES", "COUNT"] + (["ALL_PROJECTED_ATTRIBUTES"] if index else []))
        keys = [name for name, _ in (index["keys"] if index else self.keys)]
        names = [name for name in held if name not in keys or random.random() < 0.01]
        if names and random.random() < 0.3:
            plan["filter"] = self.condition(names)
            body["FilterExpression"] = writer.condition(plan["filter"])
        if random.random() < (0.2 if not index or index["local"] else 0.02):
            plan["consistent"] = body["ConsistentRead"] = True
        if random.random() < 0.5 and not self.is_large:
            plan["limit"] = body["Limit"] = random.randint(1, 6)
        return plan, body

    def range_of(self, name, kind):
        sign = self.random.choice(["=", "<", "<=", ">", ">=", "between"] + (["begins_with"] if kind != "N" else []))
        if sign == "between":
            low, high = sorted((self.scalar(kind), self.scalar(kind)), key=model.order)
            return "between", ("path", [name]), ("value", low), ("value", high)
        if sign == "begins_with":
            return sign, ("path", [name]), ("value", self.scalar(kind))
        return "compare", sign, ("path", [name]), ("value", self.scalar(kind))

    def query(self):
        random, writer = self.random, Writer(self.random)
        plan, body = self.read(writer)
        keys = self.indexes[plan["index"]]["keys"] if "index" in plan else self.keys
        plan["hash"] = self.key()["p"] if keys[0][0] == "p" else self.scalar(keys[0][1])
        parts = [writer.condition(("compare", "=", ("path", [keys[0][0]]), ("value", plan["hash"])), 2)]
        if len(keys) == 2 and random.random() < 0.5:
            plan["range"] = self.range_of(*keys[1])
            parts.append(writer.condition(plan["range"], 2))
            random.shuffle(parts)
        body["KeyConditionExpression"] = " AND ".join(parts)
        if random.random() < 0.4:
            plan["backward"], body["ScanIndexForward"] = True, False
        if self.starts and not self.is_large and "range" not in plan and random.random() < 0.6:
            hash_, index, start = random.choice(self.starts)
            if (hash_, index) == (plan["hash"], plan.get("index")):
                plan["start"], body["ExclusiveStartKey"] = start, model.encode_item(start)
        if self.spell_legacy_query(plan, body, keys):
            return "Query", body, plan
        plan["unused"] = "#unused" in writer.into(body).get("ExpressionAttributeNames", {})
        return "Query", body, plan

    def spell_legacy_query(self, plan, body, keys):
        filter_ = legacy_condition(plan["filter"]) if "filter" in plan else ({}, "AND")
        if self.random.random() < 0.7 or filter_ is None or any(len(path) > 1 for path in plan.get("paths", [])):
            return False
        for name in ("KeyConditionExpression", "FilterExpression", "ProjectionExpression"):
            body.pop(name, None)
        body["KeyConditions"] = {keys[0][0]: {"ComparisonOperator": "EQ", "AttributeValueList": [model.encode(plan["hash"])]}}
        if "range" in plan:
            body["KeyConditions"].update([legacy_leaf(plan["range"])])
        if filter_[0]:
            body["QueryFilter"], body["ConditionalOperator"] = filter_
        if "paths" in plan:
            body["AttributesToGet"] = [path[0] for path in plan["paths"]]
        return True

    def scan(self):
        writer = Writer(self.random)
        plan, body = self.read(writer)
        if self.random.random() < 0.3:
            plan["segments"] = self.random.randint(1, 4)
        plan["unused"] = "#unused" in writer.into(body).get("ExpressionAttributeNames", {})
        return "Scan", body, plan

    def request(self):
        if self.reads and self.random.random() < 0.3:
            return self.random.choice(self.reads)
        operation, body, plan = self.new_request()
        request = operation, respelled(body, self.random) if self.random.random() < 0.3 else body, plan
        if request[0] in ("GetItem", "Query", "Scan", "BatchGetItem"):
            self.reads = [*self.reads[-25:], request]
        return request

    def new_request(self):
        if self.is_altered and self.random.random() < 0.01:
            return self.alter()
        if self.random.random() < 0.003:
            return "Again", {}, {}
        choices = [self.write] * 8 + [self.get] * 3 + [self.query] * 6 + [self.scan, self.batch_write, self.transact, self.transact, self.several]
        return self.random.choice(choices)()

    def remember(self, plan, end):
        """Where a page ended, another may begin."""
        self.starts = [*self.starts[-20:], (plan["hash"], plan.get("index"), end)]
