// Access patterns of single-table design: the rows, keys, questions and answers of ../patterns.json.
"use strict";
const assert = require("node:assert/strict");
const test = require("node:test");
const { definition, range } = require("./stage.js");
const { changes, events, keys, reads, rows } = require("../patterns.json");

const table = (name) => definition(name, "PK:S SK:S", { GSI1: { keys: "GSI1PK:S GSI1SK:S" }, GSI2: { keys: "GSI2PK:S GSI2SK:S" } });
const event = (n) => ({ tenant: events.tenant, day: events.day, shard: n % events.shards, at: String(n).padStart(2, "0"), n });
const all = { ...rows, events: range(events.count, event) };

// The keys of a row; none of an index where the row has not all that they are made of.
function keysOf(kind, row) {
    const made = Object.entries(keys[kind]).map(([name, template]) => [name, template.replace(/\$\{(\w+)\}/g, (_, attribute) => row[attribute])]);
    return Object.fromEntries(made.filter(([, text]) => !text.includes("undefined")));
}

// A test for each pattern, of what answers[pattern] gives. Reads are asked twice: of the store, then of the cache.
function ask(answers) {
    for (const [pattern, expected] of Object.entries(reads))
        test(pattern, async () => {
            for (let turn = 0; turn < 2; turn++) assert.deepEqual(await answers[pattern](), expected);
        });
    for (const [pattern, expected] of Object.entries(changes)) test(pattern, async () => assert.deepEqual(await answers[pattern](), expected));
}

// Saves a document by `save(from, text)`, from the version `from` to the next: three times, then too late and too early.
// What was refused: the reasons, as `reasons(error)` finds them.
async function saveVersions(save) {
    for (const [from, text] of ["first", "second", "third"].entries()) await save(from, text);
    const reasons = (error) => /\[(.*)\]/.exec(error.message)[1];
    return [await save(1, "too late").catch(reasons), await save(7, "too early").catch(reasons)];
}

module.exports = { all, ask, event, keys, keysOf, saveVersions, table };
