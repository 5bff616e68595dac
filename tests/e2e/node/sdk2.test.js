// AWS SDK for JavaScript v2: the plain client and DocumentClient.
"use strict";
const assert = require("node:assert/strict");
const test = require("node:test");
const AWS = require("aws-sdk");
const patterns = require("./patterns.js");
const { definition, range, refused, settings, stage } = require("./stage.js");

const shared = stage(async (url) => {
    const service = new AWS.DynamoDB({ ...settings, endpoint: url, maxRetries: 0 });
    const documents = new AWS.DynamoDB.DocumentClient({ service });
    await service.createTable(patterns.table("World")).promise();
    const items = Object.entries(patterns.all).flatMap(([kind, rows]) => rows.map((row) => ({ ...patterns.keysOf(kind, row), ...row })));
    for (let begin = 0; begin < items.length; begin += 25)
        await documents.batchWrite({ RequestItems: { World: items.slice(begin, begin + 25).map((Item) => ({ PutRequest: { Item } })) } }).promise();
    return { service, documents };
});

// What a call of either client gives: call("put", parameters) of DocumentClient, call("createTable", ..) of the other.
const call = (name, parameters) => (shared.documents[name] ? shared.documents : shared.service)[name](parameters).promise();

async function create(...parameters) {
    const made = definition(...parameters);
    await call("createTable", made);
    await shared.service.waitFor("tableExists", { TableName: made.TableName, $waiter: { delay: 1, maxAttempts: 20 } }).promise();
    return made.TableName;
}

test("tables come and go, and waiters see it", async () => {
    const TableName = await create("Gone", "p:S s:N");
    const { Table } = await call("describeTable", { TableName });
    assert.deepEqual([Table.TableStatus, Table.ItemCount, Table.CreationDateTime instanceof Date], ["ACTIVE", 0, true]);
    await call("deleteTable", { TableName });
    await shared.service.waitFor("tableNotExists", { TableName, $waiter: { delay: 1, maxAttempts: 20 } }).promise();
    const error = await refused("ResourceNotFoundException", call("describeTable", { TableName }));
    assert.deepEqual([error.statusCode, error.retryable], [400, false]);
});

test("a forum: threads by last post, replies in a range, and pages by hand", async () => {
    const TableName = await create("Forum", "PK:S SK:S", { LastPost: { keys: "PK:S last:N", local: true, project: "INCLUDE", only: ["subject"] },
                                                            ByUser: { keys: "user:S SK:S", project: "KEYS_ONLY" } });
    for (let begin = 0; begin < 50; begin += 25)
        await call("batchWrite", { RequestItems: { [TableName]: range(25, (n) => n + begin).map((n) => ({ PutRequest: { Item: {
            PK: "F#db", SK: `T#${String(n).padStart(3, "0")}`, subject: `s${n}`, last: (n * 37) % 50, user: `u${n % 7}` } } })) } });
    const newest = await call("query", { TableName, IndexName: "LastPost", KeyConditionExpression: "PK = :f", Limit: 5, ScanIndexForward: false,
                                         ExpressionAttributeValues: { ":f": "F#db" } });
    assert.deepEqual(newest.Items.map((item) => item.last), [49, 48, 47, 46, 45]);
    assert.deepEqual(Object.keys(newest.Items[0]).sort(), ["PK", "SK", "last", "subject"]);
    const between = await call("query", { TableName, KeyConditionExpression: "PK = :f AND SK BETWEEN :a AND :b",
                                          ExpressionAttributeValues: { ":f": "F#db", ":a": "T#010", ":b": "T#013" } });
    assert.deepEqual(between.Items.map((item) => item.subject), ["s10", "s11", "s12", "s13"]);
    const seen = [];
    let ExclusiveStartKey;
    do {
        const page = await call("query", { TableName, IndexName: "ByUser", KeyConditionExpression: "#u = :u", ExclusiveStartKey, Limit: 3,
                                           ExpressionAttributeNames: { "#u": "user" }, ExpressionAttributeValues: { ":u": "u2" } });
        seen.push(...page.Items.map((item) => Number(item.SK.slice(2))));
        ({ LastEvaluatedKey: ExclusiveStartKey } = page);
    } while (ExclusiveStartKey);
    assert.deepEqual(seen, [2, 9, 16, 23, 30, 37, 44]);
    const scanned = await Promise.all(range(4, (Segment) => call("scan", { TableName, Segment, TotalSegments: 4, Select: "COUNT" })));
    assert.equal(scanned.reduce((sum, { Count }) => sum + Count, 0), 50);
    const pages = [];
    await new Promise((resolve, reject) => shared.service.scan({ TableName, Limit: 20 }).eachPage((error, page) => {
        if (error) return reject(error);
        if (page === null) return resolve();
        pages.push(page.Count);
        return true;
    }));
    assert.deepEqual(pages, [20, 20, 10]);
});

test("DocumentClient's sets, buffers and nothings come back", async () => {
    const TableName = await create("Kinds", "p:S");
    const item = { p: "k", strings: shared.documents.createSet(["b", "a"]), numbers: shared.documents.createSet([3, 0.5]),
                   bytes: Buffer.from([0, 1, 255]), none: null, yes: true, list: [1, { a: ["\u00e9"] }], empty: "" };
    await call("put", { TableName, Item: item });
    for (let turn = 0; turn < 2; turn++) {
        const { Item } = await call("get", { TableName, Key: { p: "k" } });
        assert.deepEqual([...Item.strings.values].sort(), ["a", "b"]);
        assert.deepEqual([...Item.numbers.values].sort(), [0.5, 3]);
        assert.deepEqual([Item.bytes, Item.none, Item.yes, Item.list, Item.empty], [item.bytes, null, true, item.list, ""]);
    }
    const reserved = await refused("ValidationException", call("update", { TableName, Key: { p: "k" }, UpdateExpression: "REMOVE list" }));
    assert.match(reserved.message, /reserved keyword: list/);
    const updated = await call("update", {
        TableName, Key: { p: "k" }, ReturnValues: "ALL_NEW", UpdateExpression: "ADD strings :more DELETE numbers :less SET #l[1].a[0] = :x",
        ExpressionAttributeNames: { "#l": "list" },
        ExpressionAttributeValues: { ":more": shared.documents.createSet(["c"]), ":less": shared.documents.createSet([3]), ":x": "y" } });
    assert.deepEqual([updated.Attributes.strings.values.sort(), updated.Attributes.numbers.values, updated.Attributes.list],
                     [["a", "b", "c"], [0.5], [1, { a: ["y"] }]]);
});

test("what is older than expressions still works", async () => {
    const TableName = await create("Older", "p:S s:N");
    await Promise.all(range(10, (n) => call("put", { TableName, Item: { p: "k", s: n, name: `n${n}` } })));
    const page = await call("query", { TableName, AttributesToGet: ["s"], KeyConditions: {
        p: { ComparisonOperator: "EQ", AttributeValueList: ["k"] }, s: { ComparisonOperator: "GE", AttributeValueList: [7] } } });
    assert.deepEqual(page.Items, [{ s: 7 }, { s: 8 }, { s: 9 }]);
    await refused("ConditionalCheckFailedException", call("put", { TableName, Item: { p: "k", s: 1 }, Expected: { p: { Exists: false } } }));
    const { Attributes } = await call("update", { TableName, Key: { p: "k", s: 1 }, ReturnValues: "UPDATED_NEW", AttributeUpdates: {
        n: { Action: "ADD", Value: 5 }, name: { Action: "PUT", Value: "new" } } });
    assert.deepEqual(Attributes, { n: 5, name: "new" });
});

test("transactions are all or nothing; batches of 100; conditions fail by name", async () => {
    const TableName = await create("Bank", "account:S");
    await Promise.all(range(60, (n) => call("put", { TableName, Item: { account: `a${n}`, balance: 100 } })));
    const move = (from, to, sum) => call("transactWrite", { TransactItems: [
        { Update: { TableName, Key: { account: from }, UpdateExpression: "SET balance = balance - :s", ConditionExpression: "balance >= :s",
                    ExpressionAttributeValues: { ":s": sum } } },
        { Update: { TableName, Key: { account: to }, UpdateExpression: "SET balance = balance + :s", ConditionExpression: "attribute_exists(account)",
                    ExpressionAttributeValues: { ":s": sum } } }] });
    await move("a1", "a2", 80);
    const error = await refused("TransactionCanceledException", move("a1", "a2", 80));
    assert.match(error.message, /\[ConditionalCheckFailed, None\]/);
    await refused("TransactionCanceledException", move("a1", "nobody", 1));
    const { Responses } = await call("transactGet", { TransactItems: ["a1", "a2", "nobody"].map((account) => ({ Get: { TableName, Key: { account } } })) });
    assert.deepEqual(Responses.map(({ Item }) => Item && Item.balance), [20, 180, undefined]);
    const found = await call("batchGet", { RequestItems: { [TableName]: { Keys: range(100, (n) => ({ account: `a${n}` })) } } });
    assert.equal(found.Responses[TableName].reduce((sum, item) => sum + item.balance, 0), 6000);
    assert.deepEqual(found.UnprocessedKeys, {});
    const failed = await refused("ConditionalCheckFailedException", call("delete", {
        TableName, Key: { account: "a1" }, ConditionExpression: "balance = :z", ExpressionAttributeValues: { ":z": 0 } }));
    assert.equal(failed.requestId.length, 16);
});

// One attribute of what the world of patterns.json answers.
async function query(attribute, KeyConditionExpression, values, more) {
    const { Items } = await call("query", { TableName: "World", KeyConditionExpression, ExpressionAttributeValues: values, ...more });
    return Items.map((item) => item[attribute]);
}
const [gsi1, gsi2] = [{ IndexName: "GSI1" }, { IndexName: "GSI2" }];
const part = "PK = :p AND begins_with(SK, :s)";
const orders = (more) => query("total", part, { ":p": "acme#C#ann", ":s": "O#" }, more);
const stores = (place) => query("store", "GSI1PK = :p AND begins_with(GSI1SK, :s)", { ":p": "acme#S", ":s": place }, gsi1);
const wishing = (product) => query("customer", "GSI1PK = :p", { ":p": `acme#W#${product}` }, gsi1);
const customers = (tenant, attribute) => query(attribute, "GSI1PK = :p", { ":p": `${tenant}#C` }, gsi1);
const open = (tenant) => query("total", "GSI2PK = :p", { ":p": `${tenant}#open` }, gsi2);
const shard = (n) => query("n", "PK = :p", { ":p": `acme#E#2026-03-05#${n}` });
const document = (SK) => ({ TableName: "World", Key: { PK: "acme#D#plan", SK } });

patterns.ask({
    "item collection: a customer, the orders and the wishes": async () => {
        const { Items } = await call("query", { TableName: "World", KeyConditionExpression: "PK = :p", ExpressionAttributeValues: { ":p": "acme#C#ann" } });
        const kind = (name) => Items.map((item) => item[name]).filter((value) => value !== undefined);
        return { customers: kind("name"), orders: kind("total"), wishes: kind("product") };
    },
    "one-to-many: a customer's orders": () => orders(),
    "begins_with: a customer's orders of February": () => query("total", part, { ":p": "acme#C#ann", ":s": "O#2026-02" }),
    "BETWEEN: a customer's orders from February 25th to May 1st": () =>
        query("total", "PK = :p AND SK BETWEEN :a AND :b", { ":p": "acme#C#ann", ":a": "O#2026-02-25", ":b": "O#2026-05-01" }),
    "newest five first": () => orders({ ScanIndexForward: false, Limit: 5 }),
    "adjacency list: what a customer wishes, and who wishes a desk": () =>
        Promise.all([query("product", part, { ":p": "acme#C#ann", ":s": "W#" }), wishing("desk")]),
    "overloaded index: one finds customers, who wishes a lamp, and Austrian stores": () =>
        Promise.all([customers("acme", "customer"), wishing("lamp"), stores("AT#")]),
    "hierarchical sort key: stores of a country, a state, a city": () => Promise.all(["DE#", "DE#BY#", "DE#BY#Munich#"].map(stores)),
    "tenant isolation: customers and open orders of acme, acme2, birch": () =>
        Promise.all(["acme", "acme2", "birch"].map(async (tenant) => [await customers(tenant, "name"), await open(tenant)])),
    "write sharding: events of the third shard, and of all, gathered": async () => [
        await shard(2), (await Promise.all(range(4, shard))).flat().sort((a, b) => a - b)],
    "batch get of 100: the events that there are": async () => {
        const Keys = range(100, (n) => patterns.keysOf("events", patterns.event(n)));
        const { Responses, UnprocessedKeys } = await call("batchGet", { RequestItems: { World: { Keys } } });
        assert.deepEqual(UnprocessedKeys, {});
        return Responses.World.map((item) => item.n).sort((a, b) => a - b);
    },
    "sparse index: open orders, before one is closed and after": async () => {
        const before = await open("acme");
        await call("update", { TableName: "World", Key: { PK: "acme#C#ann", SK: "O#2026-02-11" }, UpdateExpression: "REMOVE #s, GSI2PK",
                               ExpressionAttributeNames: { "#s": "status" } });
        return [before, await open("acme")];
    },
    "version control: three versions, one too late, one too early": async () => {
        const refused = await patterns.saveVersions((from, text) => call("transactWrite", { TransactItems: [
            { Update: { ...document("LATEST"), ConditionExpression: "version = :old", UpdateExpression: "SET version = :new, body = :text",
                        ExpressionAttributeValues: { ":new": from + 1, ":text": text, ":old": from } } },
            { Put: { TableName: "World", Item: { ...document(`V#${from + 1}`).Key, body: text }, ConditionExpression: "attribute_not_exists(PK)" } }] }));
        const { Item } = await call("get", document("LATEST"));
        return { refused, latest: [Item.version, Item.body], versions: await query("body", part, { ":p": "acme#D#plan", ":s": "V#" }) };
    },
});
