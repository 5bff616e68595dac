// DynamoDB-Toolbox: entities, conditions, batches, transactions and access patterns over one table.
"use strict";
const assert = require("node:assert/strict");
const test = require("node:test");
const { CreateTableCommand, DynamoDBClient } = require("@aws-sdk/client-dynamodb");
const { DynamoDBDocumentClient } = require("@aws-sdk/lib-dynamodb");
const box = require("dynamodb-toolbox");
const patterns = require("./patterns.js");
const { definition, range, refused, settings, stage } = require("./stage.js");

const { item, list, map, number, set, string } = box;

async function openWorld(client) {
    await client.send(new CreateTableCommand(patterns.table("World")));
    const index = (name) => ({ type: "global", partitionKey: { name: `${name}PK`, type: "string" }, sortKey: { name: `${name}SK`, type: "string" } });
    const world = new box.Table({ name: "World", documentClient: DynamoDBDocumentClient.from(client), partitionKey: { name: "PK", type: "string" },
                                  sortKey: { name: "SK", type: "string" }, indexes: { GSI1: index("GSI1"), GSI2: index("GSI2") } });
    // An entity with the keys of patterns.json: those of an index are linked to the attributes that they are made of.
    const entity = (name, kind, attributes) => {
        const linked = Object.keys(patterns.keys[kind]).filter((key) => key.startsWith("GSI"));
        return new box.Entity({
            name, table: world, computeKey: (row) => (({ PK, SK }) => ({ PK, SK }))(patterns.keysOf(kind, row)),
            schema: item(attributes).and(() => Object.fromEntries(linked.map((key) => [
                key, string().optional().hidden().link((row) => patterns.keysOf(kind, row)[key])]))) });
    };
    const key = () => string().key();
    const entities = {
        customers: entity("Customer", "customers", { tenant: key(), customer: key(), name: string() }),
        orders: entity("Order", "orders", { tenant: key(), customer: key(), date: key(), total: number(), status: string().optional() }),
        wishes: entity("Wish", "wishes", { tenant: key(), customer: key(), product: key() }),
        stores: entity("Store", "stores", { tenant: key(), store: key(), country: string(), state: string(), city: string() }),
        events: entity("Event", "events", { tenant: key(), day: key(), shard: number().key(), at: key(), n: number() }),
        documents: entity("Document", "documents", { tenant: key(), document: key(), version: number(), body: string().optional() }),
        versions: entity("Version", "versions", { tenant: key(), document: key(), version: number().key(), body: string() }) };
    for (const [kind, rows] of Object.entries(patterns.all))
        for (let begin = 0; begin < rows.length; begin += 25)
            await box.executeBatchWrite(world.build(box.BatchWriteCommand).requests(
                ...rows.slice(begin, begin + 25).map((row) => entities[kind].build(box.BatchPutRequest).item(row))));
    return { world, entities };
}

const shared = stage(async (url) => {
    const client = new DynamoDBClient({ ...settings, endpoint: url, maxAttempts: 1 });
    await client.send(new CreateTableCommand(definition("Box", "PK:S SK:S", {
        ByStatus: { keys: "status:S since:N" }, ByTotal: { keys: "PK:S total:N", local: true } })));
    const table = new box.Table({
        name: "Box", documentClient: DynamoDBDocumentClient.from(client), partitionKey: { name: "PK", type: "string" }, sortKey: { name: "SK", type: "string" },
        indexes: { ByStatus: { type: "global", partitionKey: { name: "status", type: "string" }, sortKey: { name: "since", type: "number" } },
                   ByTotal: { type: "local", sortKey: { name: "total", type: "number" } } } });
    const Customer = new box.Entity({
        name: "Customer", table, computeKey: ({ id }) => ({ PK: `C#${id}`, SK: "PROFILE" }),
        schema: item({ id: string().key(), name: string(), tags: set(string()).optional(), visits: number().default(0),
                       address: map({ city: string(), lines: list(string()) }).optional(), version: number().default(1) }) });
    const Order = new box.Entity({
        name: "Order", table, computeKey: ({ customer, id }) => ({ PK: `C#${customer}`, SK: `O#${id}` }),
        schema: item({ customer: string().key(), id: string().key(), total: number(), status: string().optional(), since: number().optional() }) });
    return { client, table, Customer, Order, ...await openWorld(client) };
});

test("entities are put, read, changed in place and deleted", async () => {
    const { Customer } = shared;
    await Customer.build(box.PutItemCommand).item({ id: "1", name: "Ann", tags: new Set(["a", "b"]), address: { city: "Ulm", lines: ["x"] } })
        .options({ condition: { attr: "id", exists: false } }).send();
    await refused("ConditionalCheckFailedException", Customer.build(box.PutItemCommand).item({ id: "1", name: "Eve" })
        .options({ condition: { attr: "id", exists: false } }).send());
    const { Attributes } = await Customer.build(box.UpdateItemCommand).item({
        id: "1", visits: box.$add(3), tags: box.$delete(new Set(["a"])), address: { city: "Bonn", lines: box.$append(["y"]) } })
        .options({ returnValues: "ALL_NEW", condition: { attr: "address.city", beginsWith: "U" } }).send();
    assert.deepEqual([Attributes.visits, Attributes.tags, Attributes.address], [3, new Set(["b"]), { city: "Bonn", lines: ["x", "y"] }]);
    for (const consistent of [false, false, true]) {
        const { Item } = await Customer.build(box.GetItemCommand).key({ id: "1" }).options({ consistent, attributes: ["name", "address.lines[1]"] }).send();
        assert.deepEqual([Item.name, Item.address.lines], ["Ann", ["y"]]);
    }
    await Customer.build(box.DeleteItemCommand).key({ id: "1" }).options({ condition: { attr: "visits", gte: 3 } }).send();
    assert.equal((await Customer.build(box.GetItemCommand).key({ id: "1" }).send()).Item, undefined);
});

test("queries of a table give entities: collections, ranges, both kinds of index", async () => {
    const { table, Customer, Order } = shared;
    await box.executeBatchWrite(table.build(box.BatchWriteCommand).requests(
        Customer.build(box.BatchPutRequest).item({ id: "q", name: "Quinn" }),
        ...range(12, (n) => Order.build(box.BatchPutRequest).item({
            customer: "q", id: String(n).padStart(2, "0"), total: (n * 5) % 12, ...(n % 4 ? {} : { status: "open", since: n }) }))));
    const query = (parameters, options = {}, entities = [Customer, Order]) => table.build(box.QueryCommand).entities(...entities).query(parameters).options(options).send();
    const collection = await query({ partition: "C#q" });
    assert.deepEqual([collection.Items.length, collection.Items[12].name], [13, "Quinn"]);
    assert.deepEqual((await query({ partition: "C#q", range: { beginsWith: "O#0" } }, { reverse: true, limit: 5 }, [Order])).Items.map((order) => order.id),
                     ["09", "08", "07", "06", "05"]);
    assert.deepEqual((await query({ partition: "C#q", range: { between: ["O#03", "O#05"] } }, {}, [Order])).Items.map((order) => order.id), ["03", "04", "05"]);
    assert.deepEqual((await query({ index: "ByTotal", partition: "C#q", range: { gte: 10 } }, { reverse: true }, [Order])).Items.map((order) => order.total), [11, 10]);
    assert.deepEqual((await query({ index: "ByStatus", partition: "open", range: { lt: 8 } }, {}, [Order])).Items.map((order) => order.id), ["00", "04"]);
    const large = await query({ partition: "C#q" }, { maxPages: Infinity, limit: 4, filters: { Order: { attr: "total", gt: 6 } } }, [Order]);
    assert.deepEqual(large.Items.map((order) => order.total).sort((a, b) => a - b), [7, 8, 9, 10, 11]);
    const scanned = await table.build(box.ScanCommand).entities(Order).options({ maxPages: Infinity, limit: 3, filters: { Order: { attr: "customer", eq: "q" } } }).send();
    assert.equal(scanned.Items.length, 12);
});

test("batches of a hundred are gathered", async () => {
    const { table, Order } = shared;
    for (let begin = 0; begin < 50; begin += 25)
        await box.executeBatchWrite(table.build(box.BatchWriteCommand).requests(...range(25, (n) => Order.build(box.BatchPutRequest).item({
            customer: "h", id: String(begin + n), total: begin + n }))));
    const { Responses } = await box.executeBatchGet(table.build(box.BatchGetCommand).requests(
        ...range(100, (n) => Order.build(box.BatchGetRequest).key({ customer: "h", id: String(n) }))));
    assert.deepEqual(Responses[0].filter(Boolean).map((order) => order.total).sort((a, b) => a - b), range(50, (n) => n));
});

test("transactions carry conditions, and tell which failed", async () => {
    const { Customer, Order } = shared;
    await Customer.build(box.PutItemCommand).item({ id: "t", name: "Tom" }).send();
    const order = (id, version) => box.executeTransactWrite(
        Customer.build(box.UpdateTransaction).item({ id: "t", version: box.$add(1), visits: box.$add(1) }).options({ condition: { attr: "version", eq: version } }),
        Order.build(box.PutTransaction).item({ customer: "t", id, total: 1 }).options({ condition: { attr: "id", exists: false } }));
    await order("1", 1);
    await order("2", 2);
    const error = await refused("TransactionCanceledException", order("2", 3));
    assert.deepEqual(error.CancellationReasons.map((reason) => reason.Code), ["None", "ConditionalCheckFailed"]);
    const { Responses } = await box.executeTransactGet(Customer.build(box.GetTransaction).key({ id: "t" }), Order.build(box.GetTransaction).key({ customer: "t", id: "2" }));
    assert.deepEqual([Responses[0].Item.visits, Responses[1].Item.total], [2, 1]);
    await box.executeTransactWrite(Customer.build(box.ConditionCheck).key({ id: "t" }).condition({ attr: "visits", eq: 2 }),
                                   Order.build(box.DeleteTransaction).key({ customer: "t", id: "2" }));
    assert.equal((await Order.build(box.GetItemCommand).key({ customer: "t", id: "2" }).send()).Item, undefined);
});

// One attribute of the entities of a kind that a query of the world gives.
async function query(attribute, kind, parameters, options = {}) {
    const { Items } = await shared.world.build(box.QueryCommand).entities(shared.entities[kind]).query(parameters).options(options).send();
    return Items.map((found) => found[attribute]);
}
const orders = (range, options) => query("total", "orders", { partition: "acme#C#ann", range }, options);
const wishing = (product) => query("customer", "wishes", { index: "GSI1", partition: `acme#W#${product}` });
const customers = (tenant, attribute) => query(attribute, "customers", { index: "GSI1", partition: `${tenant}#C` });
const stores = (place) => query("store", "stores", { index: "GSI1", partition: "acme#S", range: { beginsWith: place } });
const open = (tenant) => query("total", "orders", { index: "GSI2", partition: `${tenant}#open` });
const shard = (n) => query("n", "events", { partition: `acme#E#2026-03-05#${n}` });

patterns.ask({
    "item collection: a customer, the orders and the wishes": async () => {
        const { customers, orders, wishes } = shared.entities;
        const { Items } = await shared.world.build(box.QueryCommand).entities(customers, orders, wishes).query({ partition: "acme#C#ann" })
            .options({ showEntityAttr: true }).send();
        const kind = (name, attribute) => Items.filter((found) => found.entity === name).map((found) => found[attribute]);
        return { customers: kind("Customer", "name"), orders: kind("Order", "total"), wishes: kind("Wish", "product") };
    },
    "one-to-many: a customer's orders": () => orders({ beginsWith: "O#" }),
    "begins_with: a customer's orders of February": () => orders({ beginsWith: "O#2026-02" }),
    "BETWEEN: a customer's orders from February 25th to May 1st": () => orders({ between: ["O#2026-02-25", "O#2026-05-01"] }),
    "newest five first": () => orders({ beginsWith: "O#" }, { reverse: true, limit: 5 }),
    "adjacency list: what a customer wishes, and who wishes a desk": () =>
        Promise.all([query("product", "wishes", { partition: "acme#C#ann", range: { beginsWith: "W#" } }), wishing("desk")]),
    "overloaded index: one finds customers, who wishes a lamp, and Austrian stores": () =>
        Promise.all([customers("acme", "customer"), wishing("lamp"), stores("AT#")]),
    "hierarchical sort key: stores of a country, a state, a city": () => Promise.all(["DE#", "DE#BY#", "DE#BY#Munich#"].map(stores)),
    "tenant isolation: customers and open orders of acme, acme2, birch": () =>
        Promise.all(["acme", "acme2", "birch"].map(async (tenant) => [await customers(tenant, "name"), await open(tenant)])),
    "write sharding: events of the third shard, and of all, gathered": async () => [
        await shard(2), (await Promise.all(range(4, shard))).flat().sort((a, b) => a - b)],
    "batch get of 100: the events that there are": async () => {
        const { Responses } = await box.executeBatchGet(shared.world.build(box.BatchGetCommand).requests(
            ...range(100, (n) => shared.entities.events.build(box.BatchGetRequest).key(patterns.event(n)))));
        return Responses[0].filter(Boolean).map((event) => event.n); // in the order of the requests
    },
    "sparse index: open orders, before one is closed and after": async () => {
        const before = await open("acme");
        await shared.entities.orders.build(box.UpdateItemCommand).item({
            tenant: "acme", customer: "ann", date: "2026-02-11", status: box.$remove(), GSI2PK: box.$remove() }).send();
        return [before, await open("acme")];
    },
    "version control: three versions, one too late, one too early": async () => {
        const plan = { tenant: "acme", document: "plan" };
        const { documents, versions } = shared.entities;
        const refused = await patterns.saveVersions((from, body) => box.executeTransactWrite(
            documents.build(box.UpdateTransaction).item({ ...plan, version: from + 1, body }).options({ condition: { attr: "version", eq: from } }),
            versions.build(box.PutTransaction).item({ ...plan, version: from + 1, body }).options({ condition: { attr: "version", exists: false } })));
        const { Item } = await documents.build(box.GetItemCommand).key(plan).send();
        return { refused, latest: [Item.version, Item.body],
                 versions: await query("body", "versions", { partition: "acme#D#plan", range: { beginsWith: "V#" } }) };
    },
});
