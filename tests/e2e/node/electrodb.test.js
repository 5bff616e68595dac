// ElectroDB: entities with composed keys, collections, cursors, patches and transactions over one table.
"use strict";
const assert = require("node:assert/strict");
const test = require("node:test");
const { CreateTableCommand, DynamoDBClient } = require("@aws-sdk/client-dynamodb");
const { Entity, Service } = require("electrodb");
const patterns = require("./patterns.js");
const { definition, range, settings, stage } = require("./stage.js");

// The world of patterns.json, with keys as ElectroDB makes them.
async function openWorld(client) {
    await client.send(new CreateTableCommand(patterns.table("World")));
    const [text, optional, number] = [{ type: "string", required: true }, { type: "string" }, { type: "number", required: true }];
    const index = (pk, sk, more = {}) => ({ ...more, pk: { field: `${more.index || ""}PK`, composite: pk }, sk: { field: `${more.index || ""}SK`, composite: sk } });
    const entity = (name, attributes, indexes) => new Entity({ model: { entity: name, version: "1", service: "world" }, attributes, indexes }, { client, table: "World" });
    const account = { collection: "account" }, gsi1 = { index: "GSI1" }, gsi2 = { index: "GSI2", condition: ({ status }) => status === "open" };
    const entities = {
        customers: entity("customer", { tenant: text, customer: text, name: text },
                          { primary: index(["tenant", "customer"], [], account), tenant: index(["tenant"], ["customer"], gsi1) }),
        orders: entity("order", { tenant: text, customer: text, date: text, total: number, status: { type: "string", default: "closed" } },
                       { primary: index(["tenant", "customer"], ["date"], account), status: index(["tenant", "status"], ["date"], gsi2) }),
        wishes: entity("wish", { tenant: text, customer: text, product: text },
                       { primary: index(["tenant", "customer"], ["product"], account), product: index(["tenant", "product"], ["customer"], gsi1) }),
        stores: entity("store", { tenant: text, store: text, country: text, state: text, city: text },
                       { primary: index(["tenant", "store"], []), place: index(["tenant"], ["country", "state", "city", "store"], gsi1) }),
        events: entity("event", { tenant: text, day: text, shard: number, at: text, n: number }, { primary: index(["tenant", "day", "shard"], ["at"]) }),
        documents: entity("document", { tenant: text, document: text, version: number, body: optional }, { primary: index(["tenant", "document"], []) }),
        versions: entity("version", { tenant: text, document: text, version: number, body: text }, { primary: index(["tenant", "document"], ["version"]) }) };
    for (const [kind, rows] of Object.entries(patterns.all)) await entities[kind].put(rows).go();
    return new Service(entities);
}

const shared = stage(async (url) => {
    const client = new DynamoDBClient({ ...settings, endpoint: url, maxAttempts: 1 });
    await client.send(new CreateTableCommand(definition("Electro", "pk:S sk:S", { gsi1: { keys: "gsi1pk:S gsi1sk:S" } })));
    const to = { client, table: "Electro" };
    const Employee = new Entity({
        model: { entity: "employee", version: "1", service: "works" },
        attributes: { id: { type: "string", required: true }, team: { type: "string", required: true }, office: { type: "string" }, title: { type: "string" },
                      salary: { type: "number", default: 10 }, skills: { type: "set", items: "string" }, notes: { type: "list", items: { type: "string" } },
                      place: { type: "map", properties: { desk: { type: "number" } } } },
        indexes: { employee: { pk: { field: "pk", composite: ["id"] }, sk: { field: "sk", composite: [] } },
                   team: { collection: "assignments", index: "gsi1", pk: { field: "gsi1pk", composite: ["team"] }, sk: { field: "gsi1sk", composite: ["title", "id"] } } },
    }, to);
    const Task = new Entity({
        model: { entity: "task", version: "1", service: "works" },
        attributes: { project: { type: "string", required: true }, task: { type: "string", required: true }, team: { type: "string", required: true },
                      status: { type: ["open", "closed"], default: "open" }, points: { type: "number", default: 1 }, country: { type: "string" }, city: { type: "string" } },
        indexes: { task: { pk: { field: "pk", composite: ["project"] }, sk: { field: "sk", composite: ["country", "city", "task"] } },
                   team: { collection: "assignments", index: "gsi1", pk: { field: "gsi1pk", composite: ["team"] }, sk: { field: "gsi1sk", composite: ["status", "task"] } } },
    }, to);
    return { client, Employee, Task, service: new Service({ Employee, Task }), world: await openWorld(client) };
});

test("an entity is created once, patched under conditions and removed", async () => {
    const { Employee } = shared;
    const made = { id: "e1", team: "core", title: "dev", skills: ["c", "js"], notes: ["first"], place: { desk: 4 } };
    await Employee.create(made).go();
    await assert.rejects(Employee.create(made).go(), /conditional/i);
    const { data } = await Employee.patch({ id: "e1" }).set({ office: "north" }).add({ salary: 5, skills: ["sql"] }).append({ notes: ["second"] })
        .data(({ place }, { set }) => set(place.desk, 7)).where(({ salary }, { lte }) => lte(salary, 10)).go({ response: "all_new" });
    assert.deepEqual([data.salary, [...data.skills].sort(), data.notes, data.place.desk], [15, ["c", "js", "sql"], ["first", "second"], 7]);
    await assert.rejects(Employee.patch({ id: "e1" }).add({ salary: 5 }).where(({ salary }, { lte }) => lte(salary, 10)).go(), /conditional/i);
    await assert.rejects(Employee.patch({ id: "nobody" }).set({ office: "x" }).go(), /conditional/i);
    await Employee.update({ id: "e1" }).delete({ skills: ["c"] }).remove(["office"]).go();
    const found = await Employee.get({ id: "e1" }).go();
    assert.deepEqual([found.data.office, [...found.data.skills].sort(), found.data.team], [undefined, ["js", "sql"], "core"]);
    await Employee.remove({ id: "e1" }).go();
    assert.equal((await Employee.get({ id: "e1" }).go()).data, null);
});

test("sort keys of several parts are narrowed, ranged and read backwards", async () => {
    const { Task } = shared;
    const places = [["AT", "Vienna"], ["DE", "Berlin"], ["DE", "Bonn"]];
    const put = await Task.put(range(60, (n) => ({ project: "map", task: `t${String(n).padStart(2, "0")}`, team: `team${n % 2}`, points: n,
                                                   country: places[n % 3][0], city: places[n % 3][1] }))).go();
    assert.equal(put.unprocessed.length, 0);
    const count = async (more) => (await Task.query.task({ project: "map", ...more }).go({ pages: "all" })).data.length;
    assert.deepEqual([await count(), await count({ country: "DE" }), await count({ country: "DE", city: "Bonn" }), await count({ country: "FR" })], [60, 40, 20, 0]);
    const here = { project: "map", country: "DE", city: "Bonn" };
    assert.deepEqual((await Task.query.task(here).begins({ task: "t1" }).go()).data.map((task) => task.task), ["t11", "t14", "t17"]);
    assert.deepEqual((await Task.query.task(here).between({ task: "t20" }, { task: "t30" }).go()).data.map((task) => task.task), ["t20", "t23", "t26", "t29"]);
    assert.deepEqual((await Task.query.task(here).gt({ task: "t50" }).go()).data.map((task) => task.task), ["t53", "t56", "t59"]);
    assert.deepEqual((await Task.query.task(here).go({ order: "desc", limit: 5 })).data.map((task) => task.points), [59, 56, 53, 50, 47]);
    assert.equal((await Task.query.task(here).where(({ points }, { between }) => between(points, 20, 40)).go()).data.length, 7);
    const seen = [];
    let cursor = null;
    do {
        const page = await Task.query.task({ project: "map" }).go({ cursor, limit: 7 });
        seen.push(...page.data.map((task) => task.points));
        ({ cursor } = page);
    } while (cursor);
    assert.deepEqual(seen.sort((a, b) => a - b), range(60, (n) => n));
    const keys = range(60, (n) => ({ project: "map", task: `t${String(n).padStart(2, "0")}`, country: places[n % 3][0], city: places[n % 3][1] }));
    const found = await Task.get([...keys, ...range(40, (n) => ({ ...keys[0], task: `none${n}` }))]).go();
    assert.deepEqual([found.data.length, found.unprocessed.length], [60, 0]);
    assert.equal((await Task.scan.where(({ points }, { lt }) => lt(points, 3)).go({ pages: "all" })).data.length, 3);
});

test("a collection gives two kinds of entity from one index", async () => {
    const { Employee, Task, service } = shared;
    await Employee.put(range(3, (n) => ({ id: `c${n}`, team: "blue", title: "dev" }))).go();
    await Task.put(range(4, (n) => ({ project: "c", task: `k${n}`, team: "blue", country: "DE", city: "Ulm", status: n % 2 ? "open" : "closed" }))).go();
    const { data } = await service.collections.assignments({ team: "blue" }).go();
    assert.deepEqual([data.Employee.map((employee) => employee.id), data.Task.map((task) => task.task)], [["c0", "c1", "c2"], ["k0", "k2", "k1", "k3"]]);
    await Task.patch({ project: "c", task: "k0", country: "DE", city: "Ulm" }).set({ status: "open" }).composite({ team: "blue" }).go();
    assert.deepEqual((await Task.query.team({ team: "blue", status: "open" }).go()).data.map((task) => task.task), ["k0", "k1", "k3"]);
    assert.deepEqual((await Task.match({ team: "blue", status: "closed" }).go()).data.map((task) => task.task), ["k2"]);
});

test("transactions are taken or refused whole, and say why", async () => {
    const { service } = shared;
    const hire = (id) => service.transaction.write(({ Employee, Task }) => [
        Employee.create({ id, team: "red", title: "dev" }).commit({ response: "all_old" }),
        Task.upsert({ project: "hire", task: "count", team: "red", country: "DE", city: "Ulm" }).add({ points: 1 }).commit()]).go();
    assert.equal((await hire("x")).canceled, false);
    const again = await hire("x");
    assert.equal(again.canceled, true);
    assert.deepEqual(again.data.map((part) => [part.rejected, part.code]), [[true, "ConditionalCheckFailed"], [false, "None"]]);
    assert.equal(again.data[0].item.id, "x");
    const { data } = await service.transaction.get(({ Employee, Task }) => [
        Employee.get({ id: "x" }).commit(), Task.get({ project: "hire", task: "count", country: "DE", city: "Ulm" }).commit()]).go();
    assert.deepEqual([data[0].item.team, data[1].item.points], ["red", 1]);
});

// One attribute of what a query gives.
const find = async (attribute, query, options) => (await query.go(options)).data.map((found) => found[attribute]);
const query = (kind) => shared.world.entities[kind].query;
const ann = { tenant: "acme", customer: "ann" };
const orders = () => query("orders").primary(ann);
const wishing = (product) => find("customer", query("wishes").product({ tenant: "acme", product }));
const customers = (tenant, attribute) => find(attribute, query("customers").tenant({ tenant }));
const stores = (place) => find("store", query("stores").place({ tenant: "acme", ...place }));
const open = (tenant) => find("total", query("orders").status({ tenant, status: "open" }));
const shard = (number) => find("n", query("events").primary({ tenant: "acme", day: "2026-03-05", shard: number }));

patterns.ask({
    "item collection: a customer, the orders and the wishes": async () => {
        const { data } = await shared.world.collections.account(ann).go();
        const each = (kind, attribute) => data[kind].map((found) => found[attribute]);
        return { customers: each("customers", "name"), orders: each("orders", "total"), wishes: each("wishes", "product") };
    },
    "one-to-many: a customer's orders": () => find("total", orders()),
    "begins_with: a customer's orders of February": () => find("total", orders().begins({ date: "2026-02" })),
    "BETWEEN: a customer's orders from February 25th to May 1st": () => find("total", orders().between({ date: "2026-02-25" }, { date: "2026-05-01" })),
    "newest five first": () => find("total", orders(), { order: "desc", limit: 5 }),
    "adjacency list: what a customer wishes, and who wishes a desk": () => Promise.all([find("product", query("wishes").primary(ann)), wishing("desk")]),
    "overloaded index: one finds customers, who wishes a lamp, and Austrian stores": () =>
        Promise.all([customers("acme", "customer"), wishing("lamp"), stores({ country: "AT" })]),
    "hierarchical sort key: stores of a country, a state, a city": () =>
        Promise.all([{ country: "DE" }, { country: "DE", state: "BY" }, { country: "DE", state: "BY", city: "Munich" }].map(stores)),
    "tenant isolation: customers and open orders of acme, acme2, birch": () =>
        Promise.all(["acme", "acme2", "birch"].map(async (tenant) => [await customers(tenant, "name"), await open(tenant)])),
    "write sharding: events of the third shard, and of all, gathered": async () => [
        await shard(2), (await Promise.all(range(4, shard))).flat().sort((a, b) => a - b)],
    "batch get of 100: the events that there are": async () => {
        const { data, unprocessed } = await shared.world.entities.events.get(range(100, patterns.event)).go();
        assert.deepEqual(unprocessed, []);
        return data.map((event) => event.n).sort((a, b) => a - b);
    },
    "sparse index: open orders, before one is closed and after": async () => {
        const before = await open("acme");
        await shared.world.entities.orders.patch({ ...ann, date: "2026-02-11" }).set({ status: "closed" }).go();
        return [before, await open("acme")];
    },
    "version control: three versions, one too late, one too early": async () => {
        const plan = { tenant: "acme", document: "plan" };
        const refused = await patterns.saveVersions(async (from, body) => {
            const { canceled, data } = await shared.world.transaction.write(({ documents, versions }) => [
                documents.patch(plan).set({ version: from + 1, body }).where(({ version }, { eq }) => eq(version, from)).commit(),
                versions.create({ ...plan, version: from + 1, body }).commit()]).go();
            if (canceled) throw new Error(`[${data.map((part) => part.code).join(", ")}]`);
        });
        const { data } = await shared.world.entities.documents.get(plan).go();
        return { refused, latest: [data.version, data.body], versions: await find("body", query("versions").primary(plan)) };
    },
});
