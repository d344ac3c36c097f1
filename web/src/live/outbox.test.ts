import { expect, test } from "vitest";
import type { Batch } from "./messages.ts";
import { Outbox } from "./outbox.ts";

function openOutbox(): { readonly outbox: Outbox; readonly sent: Batch[] } {
  const sent: Batch[] = [];
  return { outbox: new Outbox((batch) => sent.push(batch)), sent };
}

test("sends the next batch only after the page has applied the last one", () => {
  const { outbox, sent } = openOutbox();
  outbox.changeRows("hosts", [["Host/a", 1]], []);
  outbox.flush();
  outbox.changeRows("hosts", [["Host/b", 1]], []);
  outbox.flush();
  expect(sent).toHaveLength(1);
  outbox.next();
  expect(sent.at(-1)?.topics).toEqual([{ topic: "hosts", isAll: false, set: [["Host/b", 1]], gone: [] }]);
});

test("sends a slow page each row once, with its newest content", () => {
  const { outbox, sent } = openOutbox();
  outbox.flush();
  for (let version = 0; version < 100; version += 1) outbox.changeRows("hosts", [["Host/a", version]], []);
  outbox.changeRows("hosts", [], ["Host/b"]);
  outbox.next();
  expect(sent).toEqual([
    { topics: [{ topic: "hosts", isAll: false, set: [["Host/a", 99]], gone: ["Host/b"] }] },
  ]);
});

test("sends a row that was deleted and created again as a row", () => {
  const { outbox, sent } = openOutbox();
  outbox.changeRows("models", [], ["a/b"]);
  outbox.changeRows("models", [["a/b", 2]], []);
  outbox.flush();
  expect(sent[0]?.topics).toEqual([{ topic: "models", isAll: false, set: [["a/b", 2]], gone: [] }]);
});

test("keeps a complete list complete when changes follow before it was sent", () => {
  const { outbox, sent } = openOutbox();
  outbox.replaceRows(
    "models",
    new Map([
      ["a/a", 1],
      ["a/b", 1],
    ]),
  );
  outbox.changeRows("models", [["a/c", 1]], ["a/a"]);
  outbox.flush();
  const [topic] = sent[0]?.topics ?? [];
  expect(topic?.isAll).toBe(true);
  expect(new Map(topic?.set)).toEqual(
    new Map([
      ["a/b", 1],
      ["a/c", 1],
    ]),
  );
});

test("drops the rows of a topic that was refused", () => {
  const { outbox, sent } = openOutbox();
  outbox.changeRows("services", [["a/b", 1]], []);
  outbox.refuse("services", { code: "Forbidden", message: "no" });
  outbox.flush();
  expect(sent[0]?.topics[0]).toMatchObject({ set: [], isAll: true, refusal: { code: "Forbidden" } });
});

test("sends nothing while there is nothing to send", () => {
  const { outbox, sent } = openOutbox();
  outbox.flush();
  outbox.next();
  expect(sent).toEqual([]);
});
