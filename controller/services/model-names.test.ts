import { expect, test } from "vitest";
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { createPublicNames, serviceNamesOf } from "../../src/gateway/public-names.ts";
import { type NamespaceExists, planModelNames, undecidedNames } from "./model-names.ts";

interface Given {
  readonly names?: readonly string[];
  readonly createdAt?: string;
  /** Recorded claims. Without them the service is new. */
  readonly record?: Readonly<Record<string, string>>;
}

const FIRST = "2026-01-01T00:00:00Z";
const LATER = "2026-01-02T00:00:00Z";
const NOW = "2026-01-03T00:00:00Z";

function service(key: string, { names = [], createdAt = FIRST, record }: Given = {}) {
  const [namespace, name] = key.split("/");
  const modelNames = record && Object.entries(record).map(([one, since]) => ({ name: one, since }));
  return inferenceServiceSchema.parse({
    metadata: { namespace, name, creationTimestamp: createdAt },
    spec: { modelRef: "m", endpoint: { modelNames: names.map((one) => ({ name: one })) } },
    status: record !== undefined ? { phase: "Ready", modelNames } : undefined,
  });
}

type Service = ReturnType<typeof service>;

/** Only the namespaces of the services exist. */
const onlyTheirs =
  (services: readonly Service[]): NamespaceExists =>
  (name) =>
    services.some(({ metadata }) => metadata.namespace === name);

/** What is planned for the last service. */
function planned(services: readonly Service[], exists = onlyTheirs(services)) {
  const table = createPublicNames();
  for (const one of services) table.set(serviceNamesOf(one));
  const last = services.at(-1);
  if (last === undefined) throw new Error("no service");
  const { modelNames, conditions, recheckAfterMs } = planModelNames(table, last, exists, NOW);
  const record = Object.fromEntries(modelNames.map(({ name, since }) => [name, since]));
  return { record, texts: conditions.map(textOf), recheckAfterMs, table, last };
}

const textOf = ({ type, status, reason, message }: ConditionUpdate) =>
  `${type}=${status} ${reason}: ${message}`;
const reported = (...services: readonly Service[]) => planned(services).texts;

test("a service with its own name only has no condition", () => {
  expect(reported(service("apps/chat"))).toEqual([]);
});

test("accepted names are listed", () => {
  expect(reported(service("apps/chat", { names: ["gpt-4o"] }))).toEqual([
    "ModelNamesAccepted=True NamesAccepted: gateways offer apps/chat as apps/chat, gpt-4o, chat",
  ]);
});

test("a short name that another service has is named, and is no failure", () => {
  expect(reported(service("old/chat"), service("new/chat", { createdAt: LATER }))).toEqual([
    "ModelNamesAccepted=True NamesAccepted: the model name chat of new/chat belongs to old/chat, which has claimed it for longer; gateways offer new/chat as new/chat",
  ]);
});

test("a requested name that another service has is a failure that names both", () => {
  const [text] = reported(
    service("old/chat", { names: ["gpt-4o"] }),
    service("new/talk", { names: ["gpt-4o", "old/chat"], createdAt: LATER }),
  );
  expect(text).toMatch(
    /^ModelNamesAccepted=False ModelNameTaken: the model name gpt-4o of new\/talk belongs to old\/chat, which has claimed it for longer; the model name old\/chat of new\/talk belongs to old\/chat, whose full name it is; gateways offer new\/talk as new\/talk, talk\. To do: remove the name/,
  );
});

test("a name that begins with another namespace is a failure that says what to do", () => {
  const { texts } = planned(
    [service("bank/other"), service("apps/chat", { names: ["gpt-4o", "bank/chat", "bank/other"] })],
    () => true,
  );
  expect(texts).toHaveLength(1);
  expect(texts[0]).toMatch(
    /^ModelNamesAccepted=False ModelNameTaken: the model name bank\/other .* whose full name it is; the model name bank\/chat of apps\/chat is reserved for services of the namespace bank; gateways offer apps\/chat as apps\/chat, gpt-4o, chat\. To do: .*; remove the name, use one without that prefix/,
  );
  const [alone] = planned([service("apps/chat", { names: ["bank/chat"] })], () => true).texts;
  expect(alone).toMatch(/^ModelNamesAccepted=False ModelNameReserved: /);
});

const SLASH = { names: ["bank/chat"] };
const claims: [title: string, services: readonly Service[], exists: NamespaceExists, record: object][] = [
  [
    "a new service claims its names since its creation",
    [service("apps/chat", { names: ["gpt-4o"], createdAt: LATER })],
    () => true,
    { chat: LATER, "gpt-4o": LATER },
  ],
  [
    "a name that is added later is claimed from now on, and the others keep their times",
    [service("apps/chat", { names: ["gpt-4o"], record: { chat: FIRST } })],
    () => true,
    { chat: FIRST, "gpt-4o": NOW },
  ],
  [
    "a name that is no longer requested is removed",
    [service("apps/chat", { record: { chat: FIRST, "gpt-4o": LATER } })],
    () => true,
    { chat: FIRST },
  ],
  [
    "a claim follows that of the holder, even if the clock does not",
    [
      service("b/talk", { names: ["gpt-4o"], createdAt: "2026-01-04T00:00:00Z" }),
      service("a/chat", { names: ["gpt-4o"], record: { chat: FIRST } }),
    ],
    () => true,
    { chat: FIRST, "gpt-4o": "2026-01-04T00:00:01Z" },
  ],
  [
    "a slash in a name without a namespace is accepted",
    [service("apps/chat", SLASH)],
    () => false,
    { chat: FIRST, "bank/chat": FIRST },
  ],
  ["the name of an existing namespace is not", [service("apps/chat", SLASH)], () => true, { chat: FIRST }],
  ["not while that is unknown", [service("apps/chat", SLASH)], () => undefined, { chat: FIRST }],
  [
    "an accepted name stays when the namespace is created",
    [service("apps/chat", { ...SLASH, record: { chat: FIRST, "bank/chat": LATER } })],
    () => true,
    { chat: FIRST, "bank/chat": LATER },
  ],
  [
    "until a service has it as its full name",
    [
      service("bank/chat", { createdAt: LATER }),
      service("apps/talk", { ...SLASH, record: { talk: FIRST, "bank/chat": FIRST } }),
    ],
    () => true,
    { talk: FIRST },
  ],
  [
    "no namespace has a name with capital letters, and the own namespace needs no look",
    [service("apps/chat", { names: ["Qwen/Qwen3-8B", "apps/other"] })],
    () => true,
    { chat: FIRST, "Qwen/Qwen3-8B": FIRST, "apps/other": FIRST },
  ],
];
test.each(claims)("%s", (_, services, exists, record) => {
  const { record: recorded, table, last } = planned(services, exists);
  expect(recorded).toEqual(record);
  // The pass that follows the write changes nothing.
  const modelNames = Object.entries(recorded).map(([name, since]) => ({ name, since }));
  const written = { ...last, status: { phase: "Ready" as const, modelNames } };
  table.set(serviceNamesOf(written));
  expect(planModelNames(table, written, exists, "2026-02-01T00:00:00Z").modelNames).toEqual(modelNames);
});

test("the condition of the pass that accepts a name is that of the following passes", () => {
  const { texts, table, last } = planned([service("apps/chat", SLASH)], () => false);
  expect(texts).toEqual([
    "ModelNamesAccepted=True NamesAccepted: gateways offer apps/chat as apps/chat, bank/chat, chat",
  ]);
  const plan = planModelNames(table, last, () => false, NOW);
  const written = { ...last, status: { phase: "Ready" as const, modelNames: plan.modelNames } };
  table.set(serviceNamesOf(written));
  expect(planModelNames(table, written, () => undefined, NOW).conditions.map(textOf)).toEqual(texts);
});

test("only names that may belong to other namespaces, and are neither accepted nor taken, need a look", () => {
  const table = createPublicNames();
  const names = ["gpt-4o", "Qwen/Qwen3-8B", "apps/x", "bank/chat", "openai/a", "openai/b", "hf.co/org/model"];
  const chat = service("apps/chat", { names, record: { chat: FIRST, "openai/a": FIRST } });
  for (const one of [service("bank/chat"), chat]) table.set(serviceNamesOf(one));
  expect(undecidedNames(table, chat)).toEqual([{ name: "openai/b", namespace: "openai" }]);
});
