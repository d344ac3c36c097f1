import fc from "fast-check";
import { expect, test } from "vitest";
import { inferenceServiceSchema } from "../api/inference-service/index.ts";
import { createPublicNames, type PublicNames, type ServiceNames, serviceNamesOf } from "./public-names.ts";

interface Given {
  readonly at?: number;
  readonly names?: readonly (string | readonly [string, number])[];
  /** Recorded claims, by the minute. Without them the service is new. */
  readonly record?: Readonly<Record<string, number>>;
}

const minute = (at: number) => `2026-01-01T00:${String(at).padStart(2, "0")}:00Z`;

/** A service that was created in that minute. */
function service(key: string, { at = 0, names = [], record }: Given = {}): ServiceNames {
  const [namespace = "", name = ""] = key.split("/");
  const modelNames = names.map((one) =>
    typeof one === "string" ? { name: one } : { name: one[0], weight: one[1] },
  );
  return serviceNamesOf(
    inferenceServiceSchema.parse({
      metadata: { namespace, name, creationTimestamp: minute(at) },
      spec: { modelRef: "m", endpoint: { modelNames } },
      status: record && { phase: "Ready", modelNames: recorded(record) },
    }),
  );
}

function recorded(record: Readonly<Record<string, number>>) {
  return Object.entries(record).map(([name, at]) => ({ name, since: minute(at) }));
}

function tableOf(...services: readonly ServiceNames[]) {
  const table = createPublicNames();
  for (const one of services) table.set(one);
  return table;
}

const only = (key: string) => [{ key, weight: 1 }];

test("a service has its full name, its name and its further names", () => {
  const table = tableOf(service("apps/chat", { names: ["gpt-4o", "Qwen/Qwen3-8B", "apps/other"] }));
  for (const name of ["apps/chat", "chat", "gpt-4o", "Qwen/Qwen3-8B", "apps/other"])
    expect(table.sharesOf(name)).toEqual(only("apps/chat"));
  expect(table.namesOf("apps/chat")).toEqual(["apps/chat", "gpt-4o", "Qwen/Qwen3-8B", "apps/other", "chat"]);
  expect(table.sharesOf("Chat")).toEqual([]);
  expect(table.takenFrom("apps/chat")).toEqual([]);
});

test("endpoint.gateway.modelName is a further name, unless the gateway is disabled", () => {
  const withGateway = (gateway: object) =>
    serviceNamesOf(
      inferenceServiceSchema.parse({
        metadata: { namespace: "apps", name: "chat" },
        spec: { modelRef: "m", endpoint: { gateway } },
      }),
    ).claims.map(({ name }) => name);
  expect(withGateway({ modelName: "llama" })).toEqual(["llama", "chat"]);
  expect(withGateway({ enabled: false, modelName: "llama" })).toEqual(["chat"]);
});

test("an adapter that requests name has a name of its own, and one that applies to all requests has none", () => {
  const { claims } = serviceNamesOf(
    inferenceServiceSchema.parse({
      metadata: { namespace: "apps", name: "chat" },
      spec: {
        modelRefs: [
          { name: "base", role: "main" },
          { name: "style", role: "lora" },
        ],
      },
    }),
  );
  expect(claims.map(({ name }) => name)).toEqual(["chat", "style"]);
  const always = inferenceServiceSchema.parse({
    metadata: { namespace: "apps", name: "chat" },
    spec: { modelRef: "m", loraAdapters: [{ modelRef: "style" }] },
  });
  expect(serviceNamesOf(always).claims.map(({ name }) => name)).toEqual(["chat"]);
});

test("the older of two services has the short name, and both have their full names", () => {
  const table = tableOf(service("new/chat", { at: 2 }), service("old/chat", { at: 1 }));
  expect(table.sharesOf("chat")).toEqual(only("old/chat"));
  expect(table.sharesOf("new/chat")).toEqual(only("new/chat"));
  expect(table.namesOf("new/chat")).toEqual(["new/chat"]);
  expect(table.takenFrom("new/chat")).toEqual([
    {
      name: "chat",
      isRequested: false,
      isAccepted: true,
      since: minute(2),
      by: "old/chat",
    },
  ]);
  expect(table.takenFrom("old/chat")).toEqual([]);
});

test("services of the same second are ordered by their full names", () => {
  const table = tableOf(service("b/chat"), service("a/chat"));
  expect(table.sharesOf("chat")).toEqual(only("a/chat"));
});

test("no name replaces the full name of a service, whatever its age", () => {
  const table = tableOf(service("apps/thief", { at: 1, names: ["bank/chat"], record: { "bank/chat": 1 } }));
  expect(table.sharesOf("bank/chat")).toEqual(only("apps/thief"));
  expect(table.set(service("bank/chat", { at: 2 }))).toEqual(["bank/chat", "apps/thief"]);
  expect(table.sharesOf("bank/chat")).toEqual(only("bank/chat"));
  expect(table.takenFrom("apps/thief").map(({ name, by }) => [name, by])).toEqual([
    ["bank/chat", "bank/chat"],
  ]);
});

test("two services of a namespace share a name to which both give a weight", () => {
  const table = tableOf(
    service("apps/stable", { at: 1, names: [["gpt", 90]] }),
    service("apps/canary", { at: 2, names: [["gpt", 10]] }),
  );
  const shares = [
    { key: "apps/stable", weight: 90 },
    { key: "apps/canary", weight: 10 },
  ];
  expect(table.sharesOf("gpt")).toEqual(shares);
  expect(table.takenFrom("apps/canary")).toEqual([]);
  table.set(service("apps/canary", { at: 2, names: [["gpt", 0]] }));
  expect(table.sharesOf("gpt")).toEqual([{ key: "apps/stable", weight: 90 }]);
  expect(table.namesOf("apps/canary")).toEqual(["apps/canary", "gpt", "canary"]);
  table.set(service("apps/stable", { at: 1, names: [["gpt", 0]] }));
  expect(table.sharesOf("gpt")).toEqual(only("apps/stable"));
});

test("a service gives its own name a weight to share it", () => {
  const table = tableOf(
    service("apps/chat", { at: 1, names: [["chat", 3]] }),
    service("apps/chat-next", { at: 2, names: [["chat", 1]] }),
  );
  expect(table.sharesOf("chat")).toEqual([
    { key: "apps/chat", weight: 3 },
    { key: "apps/chat-next", weight: 1 },
  ]);
});

test("a service of another namespace, or without a weight, does not share a name", () => {
  const table = tableOf(
    service("apps/stable", { at: 1, names: [["gpt", 1]] }),
    service("other/canary", { at: 2, names: [["gpt", 1_000]] }),
    service("apps/plain", { at: 3, names: ["gpt"] }),
  );
  expect(table.sharesOf("gpt")).toEqual(only("apps/stable"));
  for (const key of ["other/canary", "apps/plain"])
    expect(table.takenFrom(key).map(({ name, by }) => [name, by])).toEqual([["gpt", "apps/stable"]]);
});

test("within a scope, names belong to services of the scope only", () => {
  const table = tableOf(
    service("old/chat", { at: 1, names: ["gpt"] }),
    service("new/chat", { at: 2, names: ["gpt", "old/chat"] }),
  );
  const inNew = (key: string) => key.startsWith("new/");
  for (const name of ["chat", "gpt"]) expect(table.sharesOf(name, inNew)).toEqual(only("new/chat"));
  expect(table.sharesOf("old/chat", inNew)).toEqual([]);
  expect(table.namesOf("new/chat", inNew)).toEqual(["new/chat", "gpt", "chat"]);
  expect(table.namesOf("old/chat", inNew)).toEqual([]);
  expect(table.sharesOf("chat", () => false)).toEqual([]);
});

const gpt = { names: ["gpt"] };
const slash = { names: ["bank/chat"] };
type HolderRow = [title: string, holder: string | undefined, name: string, services: ServiceNames[]];
const holders: HolderRow[] = [
  [
    "an older service that adds a name does not take it from the one that has it",
    "b/new",
    "gpt",
    [service("a/old", { at: 1, ...gpt, record: { old: 1 } }), service("b/new", { at: 2, ...gpt })],
  ],
  [
    "not after the controller has recorded the claim either",
    "b/new",
    "gpt",
    [
      service("a/old", { at: 1, ...gpt, record: { old: 1, gpt: 5 } }),
      service("b/new", { at: 2, ...gpt, record: { new: 2, gpt: 2 } }),
    ],
  ],
  [
    "an added name that no service has is used at once",
    "a/old",
    "gpt",
    [service("a/old", { ...gpt, record: { old: 1 } })],
  ],
  [
    "a service that is deleted and created again has lost its names to others that claim them",
    "b/talk",
    "gpt",
    [service("a/chat", { at: 9, ...gpt }), service("b/talk", { at: 1, ...gpt, record: { talk: 1, gpt: 5 } })],
  ],
  [
    "the oldest service has the name, whoever is recorded first",
    "a/old",
    "gpt",
    [service("a/old", { at: 1, ...gpt }), service("b/new", { at: 2, ...gpt, record: { new: 2, gpt: 2 } })],
  ],
  [
    "the older service has the name of two claims of one second",
    "b/old",
    "gpt",
    [
      service("a/new", { at: 2, ...gpt, record: { gpt: 5 } }),
      service("b/old", { at: 1, ...gpt, record: { gpt: 5 } }),
    ],
  ],
  [
    "of two claims that are not recorded too",
    "b/old",
    "gpt",
    [service("a/new", { at: 2, ...gpt, record: {} }), service("b/old", { at: 1, ...gpt, record: {} })],
  ],
  [
    "no new service answers for a name of another namespace",
    undefined,
    "bank/chat",
    [service("apps/chat", slash)],
  ],
  [
    "nor does one that adds the name",
    undefined,
    "bank/chat",
    [service("apps/chat", { ...slash, record: { chat: 1 } })],
  ],
  [
    "the one whose claim is accepted does",
    "b/chat",
    "bank/chat",
    [service("apps/chat", slash), service("b/chat", { at: 5, ...slash, record: { "bank/chat": 5 } })],
  ],
  [
    "a longer name of another namespace is its name too",
    undefined,
    "bank/chat:latest",
    [service("apps/chat", { names: ["bank/chat:latest"] })],
  ],
];
test.each(holders)("%s", (_, holder, name, services) => {
  const expected = holder === undefined ? [] : only(holder);
  for (const order of [services, services.toReversed()])
    expect(tableOf(...order).sharesOf(name)).toEqual(expected);
  expect(tableOf(...services).sharesOf(name, () => true)).toEqual(expected);
});

test("services whose claim is not accepted learn that the name has an owner, and that it has none again", () => {
  const table = tableOf(service("apps/chat", slash));
  expect(table.takenFrom("apps/chat")).toEqual([]);
  expect(table.set(service("bank/chat"))).toEqual(["bank/chat", "apps/chat"]);
  expect(table.takenFrom("apps/chat")).toMatchObject([{ name: "bank/chat", by: "bank/chat" }]);
  expect(table.remove("bank/chat").toSorted()).toEqual(["apps/chat", "bank/chat"]);
  expect(table.sharesOf("bank/chat")).toEqual([]);
});

test("a change of a weight returns the services that share the name", () => {
  const stable = service("apps/stable", { at: 1, names: [["gpt", 90]] });
  const canary = (weight: number) => service("apps/canary", { at: 2, names: [["gpt", weight]] });
  const table = tableOf(stable, canary(10));
  expect(table.set(canary(50)).toSorted()).toEqual(["apps/canary", "apps/stable"]);
  expect(table.set(canary(50))).toEqual(["apps/canary"]);
});

test("a change returns only the services whose taken names have changed", () => {
  const table = tableOf(
    service("a/chat", { at: 1 }),
    service("b/chat", { at: 2 }),
    service("c/chat", { at: 3 }),
  );
  expect(table.set(service("d/chat", { at: 4 }))).toEqual(["d/chat"]);
  expect(table.set(service("c/chat", { at: 3, names: ["c"] }))).toEqual(["c/chat"]);
  expect(table.remove("b/chat")).toEqual(["b/chat"]);
  expect(table.remove("a/chat").toSorted()).toEqual(["a/chat", "c/chat", "d/chat"]);
  expect(table.sharesOf("chat")).toEqual(only("c/chat"));
  expect(table.remove("a/chat")).toEqual(["a/chat"]);
});

const NAMES = ["x", "y", "a/x", "b/y", "z"];
const someService = fc
  .record({
    key: fc.constantFrom("a/x", "a/y", "b/x", "b/y", "c/z"),
    at: fc.integer({ min: 0, max: 2 }),
    names: fc.uniqueArray(
      fc.tuple(fc.constantFrom(...NAMES), fc.option(fc.integer({ min: 0, max: 2 }), { nil: undefined })),
      { maxLength: 4, selector: ([name]) => name },
    ),
    record: fc.option(fc.dictionary(fc.constantFrom(...NAMES), fc.integer({ min: 0, max: 2 })), {
      nil: undefined,
    }),
  })
  .map(({ key, at, names, record }) =>
    service(key, {
      at,
      record,
      names: names.map(([name, weight]) => (weight === undefined ? name : [name, weight])),
    }),
  );

type State = Map<string, ServiceNames>;

function expectConsistent(table: PublicNames, state: State): void {
  const fresh = tableOf(...[...state.values()].reverse());
  const inA = tableOf(...[...state.values()].filter(({ namespace }) => namespace === "a"));
  for (const name of NAMES) {
    const shares = table.sharesOf(name);
    expect(shares).toEqual(fresh.sharesOf(name));
    expect(shares.every(({ weight }) => weight > 0)).toBe(true);
    expect(new Set(shares.map(({ key }) => key.split("/")[0])).size).toBeLessThanOrEqual(1);
    if (state.has(name)) expect(shares).toEqual(only(name));
    expect(table.sharesOf(name, (key) => key.startsWith("a/"))).toEqual(inA.sharesOf(name));
    const isClaimed = [...state.values()].some(({ claims }) => isHeldBy(claims, name));
    expect(shares.length > 0).toBe(isClaimed || state.has(name));
  }
  for (const { key, claims } of state.values()) {
    const names = [...table.namesOf(key), ...table.takenFrom(key).map((taken) => taken.name)];
    const free = claims.filter(({ name }) => table.sharesOf(name).length === 0);
    expect(free.every(({ isAccepted }) => !isAccepted)).toBe(true);
    expect([...names, ...free.map(({ name }) => name)].toSorted()).toEqual(
      [key, ...claims.map(({ name }) => name)].toSorted(),
    );
  }
}

function isHeldBy(claims: ServiceNames["claims"], name: string): boolean {
  return claims.some((claim) => claim.name === name && claim.isAccepted);
}

/** Applies a change, and expects that it names each service whose taken names it changes. */
function applyChange(table: PublicNames, state: State, change: ServiceNames | string): void {
  const takenFrom = (key: string) => JSON.stringify(table.takenFrom(key));
  const before = new Map([...state.keys()].map((key) => [key, takenFrom(key)]));
  const affected = typeof change === "string" ? table.remove(change) : table.set(change);
  if (typeof change === "string") state.delete(change);
  else state.set(change.key, change);
  const others = [...before].filter(([key, taken]) => state.has(key) && takenFrom(key) !== taken);
  expect(affected).toEqual(expect.arrayContaining(others.map(([key]) => key)));
}

test("any order of changes gives the same table, names are not shared across namespaces, and scopes do not leak", () => {
  const changesOf = fc.array(fc.oneof(someService, fc.constantFrom("a/x", "b/y")), { maxLength: 12 });
  fc.assert(
    fc.property(changesOf, (changes) => {
      const table = createPublicNames();
      const state: State = new Map();
      for (const change of changes) applyChange(table, state, change);
      expectConsistent(table, state);
    }),
  );
});

test("the oldest of 5,000 services of one name has it", () => {
  const table = createPublicNames();
  for (let index = 0; index < 5_000; index++) table.set(service(`team-${(index * 7_919) % 5_000}/chat`));
  expect(table.sharesOf("chat")).toEqual(only("team-0/chat"));
});
