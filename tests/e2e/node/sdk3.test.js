// AWS SDK for JavaScript v3: the plain client and lib-dynamodb's DocumentClient.
"use strict";
const assert = require("node:assert/strict");
const test = require("node:test");
const sdk = require("@aws-sdk/client-dynamodb");
const doc = require("@aws-sdk/lib-dynamodb");
const { marshall, NumberValueImpl } = require("@aws-sdk/util-dynamodb");
const { definition, range, refused, settings, stage } = require("./stage.js");

const shared = stage((url) => {
    const client = new sdk.DynamoDBClient({ ...settings, endpoint: url, maxAttempts: 1 });
    return { client, documents: doc.DynamoDBDocument.from(client, { marshallOptions: { removeUndefinedValues: true } }) };
});
const send = (command) => shared.client.send(command);

async function create(...parameters) {
    const made = definition(...parameters);
    await send(new sdk.CreateTableCommand(made));
    await sdk.waitUntilTableExists({ client: shared.client, maxWaitTime: 30, minDelay: 1 }, { TableName: made.TableName });
    return made.TableName;
}

// All pages of a query in one.
async function all(parameters, pageSize) {
    const items = [];
    for await (const page of doc.paginateQuery({ client: shared.documents, pageSize }, parameters)) items.push(...page.Items);
    return items;
}

// Put in batches of 25, each until nothing is left of it.
async function load(table, items) {
    for (let begin = 0; begin < items.length; begin += 25) {
        let left = { [table]: items.slice(begin, begin + 25).map((Item) => ({ PutRequest: { Item } })) };
        while (Object.keys(left).length) left = (await shared.documents.batchWrite({ RequestItems: left })).UnprocessedItems;
    }
}

test("an item collection holds a customer, orders and lines, and a sort key names the part", async () => {
    const TableName = await create("Shop", "PK:S SK:S", { GSI1: { keys: "GSI1PK:S GSI1SK:S" } });
    await load(TableName, [
        { PK: "C#1", SK: "PROFILE", name: "Ann" },
        ...range(12, (n) => ({ PK: "C#1", SK: `O#2026-${String(n + 1).padStart(2, "0")}`, total: n * 10, GSI1PK: `O#${n}`, GSI1SK: "A" })),
        ...range(3, (n) => ({ PK: "C#1", SK: `O#2026-05#L#${n}`, product: `P#${n}`, GSI1PK: `P#${n}`, GSI1SK: "O#2026-05" })),
        { PK: "C#2", SK: "PROFILE", name: "Bob" }]);
    const query = (condition, values, more) => all({ TableName, KeyConditionExpression: condition, ExpressionAttributeValues: values, ...more });
    assert.equal((await query("PK = :c", { ":c": "C#1" })).length, 16);
    assert.deepEqual((await query("PK = :c AND begins_with(SK, :o)", { ":c": "C#1", ":o": "O#2026-05" })).map((item) => item.SK),
                     ["O#2026-05", "O#2026-05#L#0", "O#2026-05#L#1", "O#2026-05#L#2"]);
    assert.deepEqual((await query("PK = :c AND SK BETWEEN :a AND :b", { ":c": "C#1", ":a": "O#2026-06", ":b": "O#2026-08" }))
        .map((item) => item.total), [50, 60, 70]);
    const newest = await shared.documents.query({ TableName, KeyConditionExpression: "PK = :c AND begins_with(SK, :o)", Limit: 5,
                                                  ExpressionAttributeValues: { ":c": "C#1", ":o": "O#" }, ScanIndexForward: false });
    assert.deepEqual(newest.Items.map((item) => item.total), [110, 100, 90, 80, 70]);
    assert.deepEqual(newest.LastEvaluatedKey, { PK: "C#1", SK: "O#2026-08" });
    const filtered = await shared.documents.query({ TableName, KeyConditionExpression: "PK = :c", FilterExpression: "#t >= :t",
                                                    ExpressionAttributeNames: { "#t": "total" },
                                                    ExpressionAttributeValues: { ":c": "C#1", ":t": 90 } });
    assert.deepEqual([filtered.Count, filtered.ScannedCount], [3, 16]);
    // One index, overloaded: by order and by product.
    assert.deepEqual((await query("GSI1PK = :p", { ":p": "P#1" }, { IndexName: "GSI1" })).map((item) => item.SK), ["O#2026-05#L#1"]);
    assert.deepEqual((await query("GSI1PK = :p", { ":p": "O#3" }, { IndexName: "GSI1" })).map((item) => item.total), [30]);
});

test("an adjacency list reads many-to-many from both sides", async () => {
    const TableName = await create("Graph", "PK:S SK:S", { Inverted: { keys: "SK:S PK:S" } });
    const enrolled = range(30, (n) => [n % 6, n % 5]);
    await load(TableName, [...range(6, (n) => ({ PK: `S#${n}`, SK: `S#${n}`, name: `student ${n}` })),
                           ...range(5, (n) => ({ PK: `K#${n}`, SK: `K#${n}`, title: `course ${n}` })),
                           ...enrolled.map(([student, course]) => ({ PK: `S#${student}`, SK: `K#${course}`, mark: student * course }))]);
    const courses = await all({ TableName, KeyConditionExpression: "PK = :s AND begins_with(SK, :k)",
                                ExpressionAttributeValues: { ":s": "S#4", ":k": "K#" } });
    assert.deepEqual(courses.map((item) => [item.SK, item.mark]), range(5, (n) => [`K#${n}`, 4 * n]));
    const students = await all({ TableName, IndexName: "Inverted", KeyConditionExpression: "SK = :k AND begins_with(PK, :s)",
                                 ExpressionAttributeValues: { ":k": "K#3", ":s": "S#" } });
    assert.deepEqual(students.map((item) => item.mark), range(6, (n) => 3 * n));
    // A link taken away is gone from both sides, cached or not.
    await shared.documents.delete({ TableName, Key: { PK: "S#4", SK: "K#3" } });
    const left = await all({ TableName, IndexName: "Inverted", KeyConditionExpression: "SK = :k AND begins_with(PK, :s)",
                             ExpressionAttributeValues: { ":k": "K#3", ":s": "S#" } });
    assert.deepEqual(left.map((item) => item.PK), ["S#0", "S#1", "S#2", "S#3", "S#5"]);
});

test("sparse indexes hold what has their keys, hierarchical keys narrow level by level", async () => {
    const TableName = await create("Places", "id:S", {
        ByPlace: { keys: "country:S place:S", project: "INCLUDE", only: ["name"] },
        Flagged: { keys: "flagged:N", project: "KEYS_ONLY" } });
    const cities = [["DE", "BY", "Munich"], ["DE", "BY", "Nuremberg"], ["DE", "BE", "Berlin"], ["AT", "W", "Vienna"], ["AT", "T", "Hall"]];
    await load(TableName, range(50, (n) => {
        const [country, state, city] = cities[n % 5];
        return { id: `s${n}`, country, place: `${state}#${city}#${String(n).padStart(2, "0")}`, name: `shop ${n}`, size: n,
                 ...(n % 10 === 3 ? { flagged: 1 } : {}) };
    }));
    const count = async (prefix) => (await shared.documents.query({
        TableName, IndexName: "ByPlace", KeyConditionExpression: "country = :c AND begins_with(place, :p)", Select: "COUNT",
        ExpressionAttributeValues: { ":c": "DE", ":p": prefix } })).Count;
    assert.deepEqual([await count("B"), await count("BY#"), await count("BY#Munich#"), await count("BY#Munich#1"), await count("X")],
                     [30, 20, 10, 2, 0]);
    const projected = await all({ TableName, IndexName: "ByPlace", KeyConditionExpression: "country = :c",
                                  ExpressionAttributeValues: { ":c": "AT" } }, 7);
    assert.equal(projected.length, 20);
    assert.deepEqual(Object.keys(projected[0]).sort(), ["country", "id", "name", "place"]);
    const flagged = async () => (await shared.documents.scan({ TableName, IndexName: "Flagged" })).Items.map((item) => item.id).sort();
    assert.deepEqual(await flagged(), ["s13", "s23", "s3", "s33", "s43"]);
    await shared.documents.update({ TableName, Key: { id: "s13" }, UpdateExpression: "REMOVE flagged" });
    await shared.documents.update({ TableName, Key: { id: "s14" }, UpdateExpression: "SET flagged = :f", ExpressionAttributeValues: { ":f": 1 } });
    assert.deepEqual(await flagged(), ["s14", "s23", "s3", "s33", "s43"]);
    await refused("ValidationException", shared.documents.query({
        TableName, IndexName: "ByPlace", KeyConditionExpression: "country = :c", ExpressionAttributeValues: { ":c": "AT" }, ConsistentRead: true }));
});

test("a tenant's partition shows nothing of another's, and deleting it leaves the others", async () => {
    const TableName = await create("Tenants", "tenant:S id:N", { ByMail: { keys: "tenant:S mail:S", local: true } });
    await load(TableName, range(90, (n) => ({ tenant: `T#${n % 3}`, id: n, mail: `u${n % 10}@${n % 3}` })));
    const of = (tenant) => all({ TableName, KeyConditionExpression: "tenant = :t", ExpressionAttributeValues: { ":t": tenant } }, 8);
    for (const tenant of ["T#0", "T#1", "T#2"]) {
        const items = await of(tenant);
        assert.equal(items.length, 30);
        assert.ok(items.every((item) => item.tenant === tenant));
    }
    const mails = await all({ TableName, IndexName: "ByMail", ConsistentRead: true, KeyConditionExpression: "tenant = :t AND begins_with(mail, :m)",
                              ExpressionAttributeValues: { ":t": "T#1", ":m": "u4@" } });
    assert.deepEqual(mails.map((item) => item.id), [4, 34, 64]);
    const gone = (await of("T#1")).map(({ tenant, id }) => ({ DeleteRequest: { Key: { tenant, id } } }));
    for (let begin = 0; begin < gone.length; begin += 25)
        await shared.documents.batchWrite({ RequestItems: { [TableName]: gone.slice(begin, begin + 25) } });
    assert.deepEqual([(await of("T#0")).length, (await of("T#1")).length, (await of("T#2")).length], [30, 0, 30]);
});

test("a sharded counter and log are written to ten partitions and gathered again", async () => {
    const TableName = await create("Events", "PK:S SK:N");
    const shard = (n) => `day#${n % 10}`;
    await Promise.all(range(200, (n) => shared.documents.put({ TableName, Item: { PK: shard(n), SK: n, text: "x".repeat(n) } })));
    await Promise.all(range(100, (n) => shared.documents.update({
        TableName, Key: { PK: shard(n), SK: -1 }, UpdateExpression: "ADD hits :one", ExpressionAttributeValues: { ":one": 1 } })));
    const parts = await Promise.all(range(10, (n) => all({
        TableName, KeyConditionExpression: "PK = :p AND SK >= :z", ExpressionAttributeValues: { ":p": shard(n), ":z": 0 } }, 6)));
    const gathered = parts.flat().sort((a, b) => a.SK - b.SK);
    assert.deepEqual(gathered.map((item) => item.SK), range(200, (n) => n));
    assert.ok(gathered.every((item) => item.text.length === item.SK));
    const hits = await Promise.all(range(10, (n) => shared.documents.get({ TableName, Key: { PK: shard(n), SK: -1 } })));
    assert.equal(hits.reduce((sum, { Item }) => sum + Item.hits, 0), 100);
});

test("a document's versions change in a transaction, and who comes too late is told why", async () => {
    const TableName = await create("Documents", "PK:S SK:S");
    const save = (version, text) => shared.documents.transactWrite({ TransactItems: [
        { Update: { TableName, Key: { PK: "d", SK: "v0" }, UpdateExpression: "SET #v = :new, body = :text",
                    ConditionExpression: "attribute_not_exists(PK) OR #v = :old", ExpressionAttributeNames: { "#v": "version" },
                    ExpressionAttributeValues: { ":new": version + 1, ":old": version, ":text": text },
                    ReturnValuesOnConditionCheckFailure: "ALL_OLD" } },
        { Put: { TableName, Item: { PK: "d", SK: `v${version + 1}`, body: text }, ConditionExpression: "attribute_not_exists(PK)" } }] });
    for (let version = 0; version < 4; version++) await save(version, `text ${version}`);
    const error = await refused("TransactionCanceledException", save(1, "too late"));
    assert.ok(error instanceof sdk.TransactionCanceledException);
    assert.deepEqual(error.CancellationReasons.map((reason) => reason.Code), ["ConditionalCheckFailed", "ConditionalCheckFailed"]);
    assert.deepEqual(error.CancellationReasons[0].Item.version, { N: "4" });
    const { Responses } = await shared.documents.transactGet({ TransactItems: ["v0", "v3", "v9"].map((SK) => ({ Get: { TableName, Key: { PK: "d", SK } } })) });
    assert.deepEqual(Responses.map(({ Item }) => Item && Item.body), ["text 3", "text 2", undefined]);
    // The token of a transaction that was done makes doing it again nothing.
    const once = { ClientRequestToken: "one-time", TransactItems: [
        { Update: { TableName, Key: { PK: "n", SK: "n" }, UpdateExpression: "ADD n :one", ExpressionAttributeValues: { ":one": 1 } } }] };
    await shared.documents.transactWrite(once);
    await shared.documents.transactWrite(once);
    assert.equal((await shared.documents.get({ TableName, Key: { PK: "n", SK: "n" } })).Item.n, 1);
    once.TransactItems[0].Update.ExpressionAttributeValues[":one"] = 2;
    await refused("IdempotentParameterMismatchException", shared.documents.transactWrite(once));
});

test("errors are instances of the SDK's classes and hold what was asked for", async () => {
    const TableName = await create("Errors", "p:S");
    await shared.documents.put({ TableName, Item: { p: "k", stock: 3, tags: new Set(["a"]) } });
    const failed = await refused("ConditionalCheckFailedException", send(new sdk.UpdateItemCommand({
        TableName, Key: { p: { S: "k" } }, UpdateExpression: "SET stock = stock - :n", ConditionExpression: "stock >= :n",
        ExpressionAttributeValues: { ":n": { N: "5" } }, ReturnValuesOnConditionCheckFailure: "ALL_OLD" })));
    assert.ok(failed instanceof sdk.ConditionalCheckFailedException);
    assert.deepEqual(failed.Item, { p: { S: "k" }, stock: { N: "3" }, tags: { SS: ["a"] } });
    assert.equal(failed.$metadata.httpStatusCode, 400);
    assert.match(failed.$metadata.requestId, /^[0-9A-F]{16}$/);
    assert.ok(await refused("ResourceNotFoundException", shared.documents.get({ TableName: "None", Key: { p: "k" } })) instanceof
              sdk.ResourceNotFoundException);
    assert.ok(await refused("ResourceInUseException", create("Errors", "p:S")) instanceof sdk.ResourceInUseException);
    const invalid = await refused("ValidationException", shared.documents.put({ TableName, Item: { p: "" } }));
    assert.ok(invalid instanceof sdk.DynamoDBServiceException);
    assert.match(invalid.message, /empty/);
    await refused("ValidationException", shared.documents.update({ TableName, Key: { p: "k" }, UpdateExpression: "SET p = :p",
                                                                   ExpressionAttributeValues: { ":p": "x" } }));
    await refused("UnknownOperationException", send(new sdk.ListBackupsCommand({})));
});

test("a hundred keys come in one batch, absent ones aside", async () => {
    const TableName = await create("Hundred", "p:S s:N");
    await load(TableName, range(75, (n) => ({ p: "k", s: n, v: `v${n}` })));
    const batch = () => shared.documents.batchGet({ RequestItems: { [TableName]: {
        Keys: range(100, (n) => ({ p: "k", s: n })), ProjectionExpression: "s, v" } } });
    for (let turn = 0; turn < 2; turn++) {
        const { Responses, UnprocessedKeys } = await batch();
        assert.deepEqual(UnprocessedKeys, {});
        assert.deepEqual(Responses[TableName].sort((a, b) => a.s - b.s), range(75, (n) => ({ s: n, v: `v${n}` })));
    }
    await refused("ValidationException", shared.documents.batchGet({ RequestItems: { [TableName]: { Keys: range(101, (n) => ({ p: "k", s: n })) } } }));
    await refused("ValidationException", shared.documents.batchWrite({ RequestItems: { [TableName]: range(26, (n) => ({
        PutRequest: { Item: { p: "k", s: n } } })) } }));
    // More than 16 MB are asked for: the rest is told, and comes when asked for again.
    await Promise.all(range(50, (n) => shared.documents.put({ TableName, Item: { p: "large", s: n, d: "x".repeat(400000) } })));
    let keys = { [TableName]: { Keys: range(50, (n) => ({ p: "large", s: n })) } }, turns = 0;
    const found = [];
    while (Object.keys(keys).length) {
        const reply = await shared.documents.batchGet({ RequestItems: keys });
        found.push(...reply.Responses[TableName].map((item) => item.s));
        keys = reply.UnprocessedKeys;
        turns++;
    }
    assert.deepEqual(found.sort((a, b) => a - b), range(50, (n) => n));
    assert.equal(turns, 2);
});

test("paginators see everything once, in pages by Limit and by 1 MB", async () => {
    const TableName = await create("Pages", "p:S s:N");
    await Promise.all(range(60, (n) => shared.documents.put({ TableName, Item: { p: "k", s: n, d: "x".repeat(50000) } })));
    const pages = [];
    for await (const page of doc.paginateQuery({ client: shared.documents }, {
        TableName, KeyConditionExpression: "p = :p", ExpressionAttributeValues: { ":p": "k" }, ScanIndexForward: false }))
        pages.push(page.Items.map((item) => item.s));
    assert.deepEqual(pages.flat(), range(60, (n) => 59 - n));
    assert.ok(pages.length > 2 && pages.every((page) => page.length <= 21), JSON.stringify(pages.map((page) => page.length)));
    const scanned = [];
    await Promise.all(range(3, async (Segment) => {
        for await (const page of doc.paginateScan({ client: shared.documents, pageSize: 7 }, { TableName, Segment, TotalSegments: 3, ProjectionExpression: "s" }))
            scanned.push(...page.Items.map((item) => item.s));
    }));
    assert.deepEqual(scanned.sort((a, b) => a - b), range(60, (n) => n));
    for (const name of ["Pages.1", "Pages.2", "Pages.3"]) await create(name, "p:S");
    const names = [];
    for await (const page of sdk.paginateListTables({ client: shared.client, pageSize: 2 }, {})) names.push(...page.TableNames);
    assert.deepEqual(names.filter((name) => name.startsWith("Pages")), ["Pages", "Pages.1", "Pages.2", "Pages.3"]);
});

test("tables come, change and go: waiters, indexes made and dropped, time to live", async () => {
    const TableName = await create("Changing", "p:S", { ByP: { keys: "p:S", project: "KEYS_ONLY" } });
    await load(TableName, range(100, (n) => ({ p: `k${n}`, g: `g${n % 4}`, exp: 1 })));
    const { TableDescription } = await send(new sdk.UpdateTableCommand({
        TableName, AttributeDefinitions: [{ AttributeName: "g", AttributeType: "S" }], GlobalSecondaryIndexUpdates: [{ Create: {
            IndexName: "ByG", KeySchema: [{ AttributeName: "g", KeyType: "HASH" }], Projection: { ProjectionType: "KEYS_ONLY" } } }] }));
    assert.deepEqual(TableDescription.GlobalSecondaryIndexes.map((index) => index.IndexName).sort(), ["ByG", "ByP"]);
    const statusOf = async (name) => ((await send(new sdk.DescribeTableCommand({ TableName }))).Table.GlobalSecondaryIndexes
        .find((index) => index.IndexName === name) || {}).IndexStatus;
    const until = Date.now() + 30000;
    while (await statusOf("ByG") !== "ACTIVE") assert.ok(Date.now() < until);
    assert.equal((await all({ TableName, IndexName: "ByG", KeyConditionExpression: "g = :g", ExpressionAttributeValues: { ":g": "g2" } })).length, 25);
    await send(new sdk.UpdateTableCommand({ TableName, GlobalSecondaryIndexUpdates: [{ Delete: { IndexName: "ByG" } }] }));
    while (await statusOf("ByG")) assert.ok(Date.now() < until);
    const live = async () => (await send(new sdk.DescribeTimeToLiveCommand({ TableName }))).TimeToLiveDescription;
    assert.deepEqual(await live(), { TimeToLiveStatus: "DISABLED" });
    await send(new sdk.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: { AttributeName: "exp", Enabled: true } }));
    assert.deepEqual(await live(), { AttributeName: "exp", TimeToLiveStatus: "ENABLED" });
    await send(new sdk.UpdateTableCommand({ TableName, BillingMode: "PROVISIONED", ProvisionedThroughput: { ReadCapacityUnits: 5, WriteCapacityUnits: 6 },
        GlobalSecondaryIndexUpdates: [{ Update: { IndexName: "ByP", ProvisionedThroughput: { ReadCapacityUnits: 5, WriteCapacityUnits: 6 } } }] }));
    assert.equal((await send(new sdk.DescribeTableCommand({ TableName }))).Table.ProvisionedThroughput.WriteCapacityUnits, 6);
    await send(new sdk.DeleteTableCommand({ TableName }));
    const waited = await sdk.waitUntilTableNotExists({ client: shared.client, maxWaitTime: 30, minDelay: 1 }, { TableName });
    assert.equal(waited.state, "SUCCESS");
});

test("every type comes back as lib-dynamodb gives it", async () => {
    const TableName = await create("Types", "p:B s:N");
    const key = { p: Uint8Array.from([0, 255, 7]), s: -1.5 };
    const item = { ...key, text: "\u00e9\u4e2d\u{1f600}\"\\\n", empty: "", yes: true, no: false, none: null, list: [1, ["two", { three: [] }]], map: { a: {}, "b.c": 1 },
                   strings: new Set(["a", "b"]), numbers: new Set([1, 2.5]), bytes: Uint8Array.from(range(256, (n) => n)) };
    await shared.documents.put({ TableName, Item: item });
    for (const ConsistentRead of [false, true]) assert.deepEqual((await shared.documents.get({ TableName, Key: key, ConsistentRead })).Item, item);
    const wide = "12345678901234567890123456789012345678";
    await shared.documents.put({ TableName, Item: { ...key, wide: NumberValueImpl.from(wide) } });
    assert.deepEqual((await send(new sdk.GetItemCommand({ TableName, Key: marshall(key), ProjectionExpression: "wide" }))).Item, { wide: { N: wide } });
    const updated = await shared.documents.update({
        TableName, Key: key, ReturnValues: "UPDATED_NEW", UpdateExpression: "SET l = list_append(if_not_exists(l, :none), :l), m = :m REMOVE wide",
        ExpressionAttributeValues: { ":none": [], ":l": [1, "x"], ":m": { deep: { deeper: true } } } });
    assert.deepEqual(updated.Attributes, { l: [1, "x"], m: { deep: { deeper: true } } });
});

test("PartiQL and what else is not there is said so, at once", async () => {
    for (const command of [new sdk.ExecuteStatementCommand({ Statement: "SELECT * FROM Shop" }), new sdk.DescribeContinuousBackupsCommand({ TableName: "Shop" })])
        await refused("UnknownOperationException", send(command));
    assert.equal((await send(new sdk.DescribeLimitsCommand({}))).TableMaxReadCapacityUnits, 40000);
});
