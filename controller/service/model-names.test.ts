import { expect, test } from "vitest";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { createPublicNames, serviceNamesOf } from "../../src/gateway/public-names.ts";
import { modelNamesConditions } from "./model-names.ts";

function service(key: string, names: readonly string[] = [], createdAt = "2026-01-01T00:00:00Z") {
  const [namespace, name] = key.split("/");
  return inferenceServiceSchema.parse({
    metadata: { namespace, name, creationTimestamp: createdAt },
    spec: { modelRef: "m", endpoint: { modelNames: names.map((one) => ({ name: one })) } },
  });
}

/** The conditions of the last service. */
function reported(...services: readonly ReturnType<typeof service>[]): string[] {
  const table = createPublicNames();
  for (const one of services) table.set(serviceNamesOf(one));
  const last = services.at(-1);
  if (last === undefined) return [];
  return modelNamesConditions(table, last).map(
    ({ type, status, reason, message }) => `${type}=${status} ${reason}: ${message}`,
  );
}

const later = "2026-01-02T00:00:00Z";

test("a service with its own name only has no condition", () => {
  expect(reported(service("apps/chat"))).toEqual([]);
});

test("accepted names are listed", () => {
  expect(reported(service("apps/chat", ["gpt-4o"]))).toEqual([
    "ModelNamesAccepted=True NamesAccepted: gateways offer apps/chat as apps/chat, gpt-4o, chat",
  ]);
});

test("a short name that an older service has is named, and is no failure", () => {
  expect(reported(service("old/chat"), service("new/chat", [], later))).toEqual([
    "ModelNamesAccepted=True NamesAccepted: the model name chat of new/chat belongs to old/chat, which is older; gateways offer new/chat as new/chat",
  ]);
});

test("a requested name that another service has is a failure that names both", () => {
  const [text] = reported(
    service("old/chat", ["gpt-4o"]),
    service("new/talk", ["gpt-4o", "old/chat"], later),
  );
  expect(text).toMatch(
    /^ModelNamesAccepted=False ModelNameTaken: the model name gpt-4o of new\/talk belongs to old\/chat, which is older; the model name old\/chat of new\/talk belongs to old\/chat, whose full name it is; gateways offer new\/talk as new\/talk, talk\. To do: remove the name/,
  );
});
