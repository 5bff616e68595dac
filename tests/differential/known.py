"""Where mudax and dynalite may differ, and why. The judgment is by DynamoDB's documentation, or by what is known of its
answers, never by dynalite. See dynalite.py.

Each reason stands behind a test that is as narrow as it can be: what passes it is counted and not looked at any further.
"""
import re

import model

def conditions(plan):
    """The trees of a request's condition and filter."""
    return [plan[name] for name in ("condition", "filter") if isinstance(plan, dict) and plan.get(name)]


def compares_two_paths(tree):
    """Does it compare what an item has with what else it has?"""
    if tree[0] in ("and", "or", "not"):
        return any(map(compares_two_paths, tree[1:]))
    return tree[0] == "compare" and tree[2][0] != "value" and tree[3][0] != "value"


def measures(tree):
    """Does it ask for a size()?"""
    return tree[0] == "size" or any(isinstance(each, tuple) and measures(each) for each in tree[1:])


def values_in(tree):
    if tree[0] == "value":
        return [tree[1]]
    return [value for each in tree[1:] if isinstance(each, (tuple, list))
            for inner in (each if isinstance(each, list) else [each]) if isinstance(inner, tuple) for value in values_in(inner)]


def copies_and_changes(plan):
    """An update that has a path on its right, and may change what is there."""
    actions = plan.get("actions", []) if isinstance(plan, dict) else []
    copied = [path for sign, _, right in actions if sign == "SET" for path in model.paths_of_update([(sign, ["-"], right)])[1:]]
    return copied and any(sign in ("ADD", "DELETE") or len(path) > 1 for sign, path, _ in actions)


def respelled_numbers(body):
    """Numbers of the older conditions that are not written as they are stored."""
    conditions = [each for name in ("Expected", "QueryFilter", "ScanFilter") for each in body.get(name, {}).values()]
    values = [value for condition in conditions for value in condition.get("AttributeValueList", [])]
    return any(value != model.encode(model.decode(value)) for value in values if "N" in value)


# And what attribute_type() calls those that have such.
NO_VALUES = [("BOOL", False), ("S", ""), ("B", b""), ("S", "BOOL"), ("S", "S"), ("S", "B")]

# Requests that are not sent: dynalite's answer says nothing, or would part the two tables.
NOT_ASKED = [
    ("transactions: dynalite has none", lambda operation, body, plan: operation.startswith("Transact")),
    ("two attributes compared: dynalite takes two that are missing for equal, DynamoDB compares only what there is",
     lambda operation, body, plan: any(map(compares_two_paths, conditions(plan)))),
    ("size(): of a text dynalite counts units of UTF-16, mudax bytes",
     lambda operation, body, plan: any(map(measures, conditions(plan)))),
    ("false and empty values: dynalite takes them for no value",
     lambda operation, body, plan: any(value in NO_VALUES for tree in conditions(plan) for value in values_in(tree))),
    ("lists and maps compared: dynalite does not find them equal",
     lambda operation, body, plan: any(value[0] in ("L", "M") for tree in conditions(plan) for value in values_in(tree))),
    ("ConditionalOperator OR: dynalite looks at the first condition only",
     lambda operation, body, plan: body.get("ConditionalOperator") == "OR"),
    ("an update that copies an attribute and changes it: dynalite changes the copy, too",
     lambda operation, body, plan: copies_and_changes(plan)),
    ("numbers in the older conditions: dynalite compares their spelling",
     lambda operation, body, plan: respelled_numbers(body)),
    ("pages of an index: the order of items with equal keys is open",
     lambda operation, body, plan: operation == "Query" and "IndexName" in body and ("Limit" in body or "ExclusiveStartKey" in body)),
]


def not_asked(operation, body, plan):
    return next((reason for reason, test in NOT_ASKED if test(operation, body, plan)), None)


def both_refuse(ours, theirs):
    return isinstance(ours, tuple) and isinstance(theirs, tuple)


# Texts of DynamoDB's that one request can deserve several of.
MISTAKES = [
    "Consistent reads are not supported on global secondary indexes", "Key attributes must be scalars", "Type mismatch for Index Key",
    "The document path provided in the update expression is invalid for update",
    "The provided expression refers to an attribute that does not exist in the item",
    "An operand in the update expression has an incorrect data type",
    "The update expression attempted to update the secondary index key to unsupported type",
    "attempted to update a secondary index key to a value that is not supported", "Two document paths overlap", "Two document paths conflict",
    "Provided list of item keys contains duplicates", "unused in expressions", "This attribute is part of the key",
    "Select type ALL_ATTRIBUTES is not supported for global secondary index", "Invalid ProjectionExpression: ", "Invalid FilterExpression: ",
    "can only contain non-primary key attributes", "does not project",
]


def mistake(text):
    return next((known for known in MISTAKES if known in text), None)


KNOWN = [
    ("keys of indexes: which one of several that are wrong is named is open",
     lambda operation, body, ours, theirs: both_refuse(ours, theirs) and ours[0] == theirs[0] and
     mistake(ours[1]) == mistake(theirs[1]) and mistake(ours[1]) in ("Key attributes must be scalars", "Type mismatch for Index Key")),
    ("EQ and NE in the older parameters: dynalite refuses some types, the API reference has them of all",
     lambda operation, body, ours, theirs: isinstance(theirs, tuple) and
     re.search(r"ComparisonOperator (EQ|NE) is not valid for \w+ AttributeValue type$", theirs[1])),
    ("no attributes: DynamoDB leaves Attributes out, dynalite has an empty map",
     lambda operation, body, ours, theirs: operation == "UpdateItem" and theirs == {"Attributes": {}} and ours == {}),
    ("two mistakes: which of them is told is open",
     lambda operation, body, ours, theirs: both_refuse(ours, theirs) and ours[0] == theirs[0] == "ValidationException" and
     mistake(ours[1]) is not None and mistake(theirs[1]) is not None and mistake(ours[1]) != mistake(theirs[1])),
    ("an empty value for an index's key: dynalite takes it, DynamoDB refuses it",
     lambda operation, body, ours, theirs: isinstance(ours, tuple) and not isinstance(theirs, tuple) and
     re.search(r"secondary index key .* cannot contain an empty (string|binary) value", ours[1])),
    ("a sum or difference of more than 38 digits: dynalite stores it, DynamoDB refuses it",
     lambda operation, body, ours, theirs: isinstance(ours, tuple) and not isinstance(theirs, tuple) and operation == "UpdateItem" and
     "Attempting to store more than 38 significant digits in a Number" in ours[1]),
    ("a consistent Scan of a global index: dynalite does it, DynamoDB refuses it",
     lambda operation, body, ours, theirs: operation == "Scan" and "IndexName" in body and body.get("ConsistentRead") and
     ours == ("ValidationException", "Consistent reads are not supported on global secondary indexes")),
]


def why(operation, body, ours, theirs):
    """The reason why these answers may differ; None: they may not."""
    return next((reason for reason, test in KNOWN if test(operation, body, ours, theirs)), None)
