import { expect, test } from "vitest";
import { ConsoleError } from "../../../api/request.ts";
import { emptyForm, fieldsOf, formOf, refusalOf, wrongFields } from "./form.ts";

test("an empty form lacks a name and a scope", () => {
  expect(wrongFields(emptyForm())).toEqual(["name", "scope"]);
  expect(wrongFields({ ...emptyForm(), name: "ada", isForAll: true })).toEqual([]);
});

test("numbers must be whole and positive", () => {
  const form = { ...emptyForm(), name: "ada", isForAll: true, weight: "0", validDays: "1.5" };
  const limits = { ...form.limits, requestsPerMinute: "many", tokensPerDay: "2 000 000" };
  expect(wrongFields({ ...form, limits })).toEqual(["requestsPerMinute", "weight", "validDays"]);
});

test.each([
  ["ConsoleRequestInvalid", "limits.tokensPerDay: Too big", { field: "tokensPerDay", message: "Too big" }],
  ["ConsoleRequestInvalid", "scope.namespaces.0: must be the name of a namespace", { field: "scope" }],
  ["ConsoleRequestInvalid", "validForSeconds: Too big", { field: "validDays" }],
  ["GatewayKeyExists", "namespace x already has a Secret ada", { field: "name" }],
  ["ApiObjectInvalid", 'Secret "a" is invalid: metadata.name: too long', undefined],
  ["ApiForbidden", "You may not create secrets.", undefined],
])("%s %s is a refusal of a field, or of none", (code, message, refused) => {
  const found = refusalOf(new ConsoleError(code, message));
  if (refused === undefined) expect(found).toBeUndefined();
  else expect(found).toMatchObject(refused);
});

test("a form becomes the fields of a key, and a key the form", () => {
  const form = {
    ...emptyForm(),
    name: "ada",
    lists: { namespaces: "team-a, team-b", services: "", models: "qwen3" },
    limits: { ...emptyForm().limits, tokensPerDay: "2000000" },
    weight: "3",
    validDays: "30",
  };
  const fields = fieldsOf(form);
  expect(JSON.parse(JSON.stringify(fields))).toEqual({
    owner: "ada",
    scope: { namespaces: ["team-a", "team-b"], models: ["qwen3"] },
    limits: { tokensPerDay: 2_000_000 },
    priority: "normal",
    weight: 3,
    validForSeconds: 30 * 86_400,
  });
  const { owner = "", scope = "all", limits = {}, priority = "normal", weight = 1 } = fields;
  const entry = { name: "ada", createdAt: undefined, state: "active", keys: [] } as const;
  const again = formOf({ ...entry, owner, scope, limits, priority, weight });
  expect(again).toEqual({ ...form, owner: "ada", validDays: "" });
});
