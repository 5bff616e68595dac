// OneTable: models, unique attributes, references, batches and transactions over one table.
"use strict";
const assert = require("node:assert/strict");
const test = require("node:test");
const { DynamoDBClient } = require("@aws-sdk/client-dynamodb");
const { Table } = require("dynamodb-onetable");
const { Dynamo } = require("dynamodb-onetable/Dynamo");
const patterns = require("./patterns.js");
const { range, settings, stage } = require("./stage.js");

const schema = {
    format: "onetable:1.1.0", version: "0.0.1",
    indexes: { primary: { hash: "pk", sort: "sk" }, gs1: { hash: "gs1pk", sort: "gs1sk", project: "all" },
               gs2: { hash: "gs2pk", sort: "gs2sk", project: "keys" }, ls1: { sort: "age", type: "local" } },
    models: {
        Account: { pk: { type: String, value: "account#${id}" }, sk: { type: String, value: "account#" }, id: { type: String, required: true },
                   name: { type: String, required: true, unique: true }, balance: { type: Number, default: 0 } },
        User: { pk: { type: String, value: "account#${account}" }, sk: { type: String, value: "user#${email}" }, account: { type: String, required: true },
                email: { type: String, required: true }, name: { type: String }, age: { type: Number }, role: { type: String, enum: ["user", "admin"], default: "user" },
                tags: { type: Array }, profile: { type: Object }, joined: { type: Date },
                gs1pk: { type: String, value: "mail#${email}" }, gs1sk: { type: String, value: "user#" },
                gs2pk: { type: String, value: "role#${role}" }, gs2sk: { type: String, value: "user#${name}" } },
    },
    params: { isoDates: true, timestamps: true },
};

// A model of the world of patterns.json, with the keys that are written there.
const model = (kind, fields) => ({ ...Object.fromEntries(Object.entries(patterns.keys[kind]).map(([name, value]) => [name, { type: String, value }])), ...fields });
const [text, number] = [{ type: String, required: true }, { type: Number, required: true }];
const worldSchema = {
    format: "onetable:1.1.0", version: "0.0.1",
    indexes: { primary: { hash: "PK", sort: "SK" }, GSI1: { hash: "GSI1PK", sort: "GSI1SK", project: "all" }, GSI2: { hash: "GSI2PK", sort: "GSI2SK", project: "all" } },
    models: {
        Customer: model("customers", { tenant: text, customer: text, name: text }),
        Order: model("orders", { tenant: text, customer: text, date: text, total: number, status: { type: String } }),
        Wish: model("wishes", { tenant: text, customer: text, product: text }),
        Store: model("stores", { tenant: text, store: text, country: text, state: text, city: text }),
        Event: model("events", { tenant: text, day: text, shard: number, at: text, n: number }),
        Document: model("documents", { tenant: text, document: text, version: number, body: { type: String } }),
        Version: model("versions", { tenant: text, document: text, version: number, body: text }),
    },
};
const modelOf = { customers: "Customer", orders: "Order", wishes: "Wish", stores: "Store", events: "Event", documents: "Document" };

async function openWorld(client) {
    const table = new Table({ name: "World", client: new Dynamo({ client }), schema: worldSchema, partial: true, logger: false });
    await table.createTable();
    for (const [kind, rows] of Object.entries(patterns.all))
        for (let begin = 0; begin < rows.length; begin += 25) {
            const batch = {};
            for (const row of rows.slice(begin, begin + 25)) await table.create(modelOf[kind], row, { batch, exists: null });
            await table.batchWrite(batch);
        }
    return { world: table, ...Object.fromEntries(Object.keys(worldSchema.models).map((name) => [name, table.getModel(name)])) };
}

const shared = stage(async (url) => {
    const client = new DynamoDBClient({ ...settings, endpoint: url, maxAttempts: 1 });
    const table = new Table({ name: "One", client: new Dynamo({ client }), schema, partial: true, logger: false });
    await table.createTable({ attributes: { age: "number" } });
    return { client, table, Account: table.getModel("Account"), User: table.getModel("User"), ...await openWorld(client) };
});

test("a table made by OneTable is there, with its indexes", async () => {
    assert.equal(await shared.table.exists(), true);
    const { Table: made } = await shared.table.describeTable();
    assert.deepEqual(made.GlobalSecondaryIndexes.map((index) => index.IndexName).sort(), ["gs1", "gs2"]);
    assert.deepEqual(made.LocalSecondaryIndexes.map((index) => index.IndexName), ["ls1"]);
});

test("models are made, found, changed and removed", async () => {
    const { Account, User } = shared;
    await Account.create({ id: "1", name: "Acme" });
    await assert.rejects(Account.create({ id: "1", name: "Again" }), /unique|exists/i);
    await assert.rejects(Account.create({ id: "2", name: "Acme" }), /unique/i); // names are unique, by a transaction
    assert.equal(await Account.get({ id: "2" }), undefined);
    for (let n = 0; n < 20; n++)
        await User.create({ account: "1", email: `u${String(n).padStart(2, "0")}@x`, name: `name ${n}`, age: (n * 7) % 20, role: n % 5 ? "user" : "admin",
                            tags: ["a", n], profile: { level: n }, joined: new Date(1e12 + n) });
    const user = await User.get({ account: "1", email: "u03@x" });
    assert.deepEqual([user.name, user.tags, user.profile, user.joined.getTime()], ["name 3", ["a", 3], { level: 3 }, 1e12 + 3]);
    assert.equal((await User.find({ account: "1" })).length, 20);
    assert.deepEqual((await User.find({ account: "1", sk: { begins: "user#u1" } }, { reverse: true, limit: 5 })).map((found) => found.email),
                     ["u19@x", "u18@x", "u17@x", "u16@x", "u15@x"]);
    assert.deepEqual((await User.find({ account: "1", sk: { between: ["user#u04@x", "user#u06@x"] } })).map((found) => found.name), ["name 4", "name 5", "name 6"]);
    assert.deepEqual((await User.find({ account: "1" }, { where: "${profile.level} > {16}" })).map((found) => found.profile.level), [17, 18, 19]);
    assert.equal((await User.find({ account: "1", role: "admin" }, { count: true })).count, 4);
    assert.equal((await User.get({ email: "u07@x" }, { index: "gs1" })).name, "name 7");
    // gs2 projects keys: what is found is followed to the item.
    assert.deepEqual((await User.find({ role: "admin" }, { index: "gs2", follow: true })).map((found) => found.profile.level).sort((a, b) => a - b), [0, 5, 10, 15]);
    assert.deepEqual((await User.find({ account: "1", age: { ">=": 17 } }, { index: "ls1" })).map((found) => found.age), [17, 18, 19]);

    const changed = await User.update({ account: "1", email: "u03@x" }, { add: { age: 100 }, push: { tags: ["z"] }, set: { "profile.level": 33 }, remove: ["joined"],
                                                                           where: "${age} < {20}" });
    assert.deepEqual([changed.age, changed.tags, changed.profile.level, changed.joined], [101, ["a", 3, "z"], 33, undefined]);
    await assert.rejects(User.update({ account: "1", email: "u03@x" }, { add: { age: 1 }, where: "${age} < {20}" }), /condition/i);
    await User.remove({ account: "1", email: "u03@x" });
    assert.equal(await User.get({ account: "1", email: "u03@x" }), undefined);
    await Account.remove({ id: "1" });
    await Account.create({ id: "9", name: "Acme" }); // the name is free again
});

test("pages go forward and back again", async () => {
    const { User } = shared;
    for (let n = 0; n < 23; n++) await User.create({ account: "p", email: `${String(n).padStart(2, "0")}@p` });
    const seen = [];
    let next, page;
    do {
        page = await User.find({ account: "p" }, { limit: 10, next });
        seen.push(...page.map((user) => Number(user.email.slice(0, 2))));
        next = page.next;
    } while (next);
    assert.deepEqual(seen, range(23, (n) => n));
    const before = await User.find({ account: "p" }, { limit: 10, prev: page.prev });
    assert.deepEqual(before.map((user) => user.email), range(10, (n) => `${n + 10}@p`));
});

test("batches and transactions are done as one", async () => {
    const { table, Account, User } = shared;
    const batch = {};
    for (let n = 0; n < 25; n++) await User.create({ account: "b", email: `${n}@b`, age: n }, { batch, exists: null });
    await table.batchWrite(batch);
    const reads = {};
    for (let n = 0; n < 50; n++) await User.get({ account: "b", email: `${n}@b` }, { batch: reads });
    assert.equal((await table.batchGet(reads, { parse: true, hidden: false })).length, 25);
    await Account.create({ id: "t", name: "Tee" });
    const transaction = {};
    await Account.update({ id: "t" }, { add: { balance: -5 }, transaction, where: "${balance} >= {0}" });
    await User.update({ account: "b", email: "1@b" }, { add: { age: 5 }, transaction });
    await table.transact("write", transaction);
    const again = {};
    await Account.update({ id: "t" }, { add: { balance: -5 }, transaction: again, where: "${balance} >= {0}" });
    await User.update({ account: "b", email: "1@b" }, { add: { age: 5 }, transaction: again });
    await assert.rejects(table.transact("write", again), (error) => /TransactionCanceled|condition/i.test(`${error.code} ${error.message}`));
    assert.deepEqual([(await Account.get({ id: "t" })).balance, (await User.get({ account: "b", email: "1@b" })).age], [-5, 6]);
    const scanned = await User.scan({ account: "b" });
    assert.equal(scanned.length, 25);
});

// One attribute of what models find.
const each = (attribute, found) => found.map((one) => one[attribute]);
const find = async (attribute, name, properties, params) => each(attribute, await shared[name].find(properties, params));
const [ann, gsi1, gsi2] = [{ tenant: "acme", customer: "ann" }, { index: "GSI1" }, { index: "GSI2" }];
const orders = (more, params) => find("total", "Order", { ...ann, ...more }, params);
const wishing = (product) => find("customer", "Wish", { tenant: "acme", product }, gsi1);
const customers = (tenant, attribute) => find(attribute, "Customer", { tenant }, gsi1);
const stores = (place) => find("store", "Store", { tenant: "acme", GSI1SK: { begins: place } }, gsi1);
const open = (tenant) => find("total", "Order", { tenant, status: "open" }, gsi2);
const shard = (number) => find("n", "Event", { tenant: "acme", day: "2026-03-05", shard: number });

patterns.ask({
    "item collection: a customer, the orders and the wishes": async () => {
        const found = await shared.world.fetch(["Customer", "Order", "Wish"], { PK: "acme#C#ann" });
        return { customers: each("name", found.Customer), orders: each("total", found.Order), wishes: each("product", found.Wish) };
    },
    "one-to-many: a customer's orders": () => orders(),
    "begins_with: a customer's orders of February": () => orders({ SK: { begins: "O#2026-02" } }),
    "BETWEEN: a customer's orders from February 25th to May 1st": () => orders({ SK: { between: ["O#2026-02-25", "O#2026-05-01"] } }),
    "newest five first": () => orders({}, { reverse: true, limit: 5 }),
    "adjacency list: what a customer wishes, and who wishes a desk": () => Promise.all([find("product", "Wish", ann), wishing("desk")]),
    "overloaded index: one finds customers, who wishes a lamp, and Austrian stores": () =>
        Promise.all([customers("acme", "customer"), wishing("lamp"), find("store", "Store", { tenant: "acme", country: "AT" }, gsi1)]),
    "hierarchical sort key: stores of a country, a state, a city": () => Promise.all(["DE#", "DE#BY#", "DE#BY#Munich#"].map(stores)),
    "tenant isolation: customers and open orders of acme, acme2, birch": () =>
        Promise.all(["acme", "acme2", "birch"].map(async (tenant) => [await customers(tenant, "name"), await open(tenant)])),
    "write sharding: events of the third shard, and of all, gathered": async () => [
        await shard(2), (await Promise.all(range(4, shard))).flat().sort((a, b) => a - b)],
    "batch get of 100: the events that there are": async () => {
        const batch = {};
        for (let n = 0; n < 100; n++) await shared.Event.get(patterns.event(n), { batch });
        return each("n", await shared.world.batchGet(batch, { parse: true })).sort((a, b) => a - b);
    },
    "sparse index: open orders, before one is closed and after": async () => {
        const before = await open("acme");
        await shared.Order.update({ ...ann, date: "2026-02-11" }, { remove: ["status", "GSI2PK"] });
        return [before, await open("acme")];
    },
    "version control: three versions, one too late, one too early": async () => {
        const plan = { tenant: "acme", document: "plan" };
        const refused = await patterns.saveVersions(async (from, body) => {
            const transaction = {};
            await shared.Document.update({ ...plan, version: from + 1, body }, { transaction, where: `\${version} = {${from}}` });
            await shared.Version.create({ ...plan, version: from + 1, body }, { transaction });
            await shared.world.transact("write", transaction).catch((error) => { throw error.context.err; });
        });
        const { version, body } = await shared.Document.get(plan);
        return { refused, latest: [version, body], versions: await find("body", "Version", plan) };
    },
});
