/** The form of a key: what is typed, and what is sent. Pure. */

import type { GatewayKey, KeyEntry, KeyFields, KeyLimits, KeyScope } from "../../../../../src/gateway/key.ts";
import { ConsoleError } from "../../../api/request.ts";

/** What a key may use, if not everything. */
export const SCOPES = {
  namespaces: { label: "Namespaces", example: "team-a, team-b" },
  services: { label: "Services", example: "team-a/chat" },
  models: { label: "Model names", example: "qwen3, gpt-4o" },
} as const;
export type ScopeKind = keyof typeof SCOPES;
export const SCOPE_KINDS = Object.keys(SCOPES) as readonly ScopeKind[];

export type LimitName = keyof KeyLimits;
export const LIMITS: Readonly<Record<LimitName, { readonly label: string; readonly unit: string }>> = {
  concurrentRequests: { label: "Concurrent requests", unit: "at a time" },
  requestsPerMinute: { label: "Requests per minute", unit: "requests/min" },
  tokensPerMinute: { label: "Tokens per minute", unit: "tokens/min" },
  tokensPerDay: { label: "Tokens per day (UTC)", unit: "tokens/day" },
  tokensPerMonth: { label: "Tokens per month (UTC)", unit: "tokens/month" },
};
export const LIMIT_NAMES = Object.keys(LIMITS) as readonly LimitName[];

/** Texts as typed. */
export interface KeyForm {
  readonly name: string;
  readonly owner: string;
  /** What the key may use: everything, or any of the lists. */
  readonly isForAll: boolean;
  readonly lists: Readonly<Record<ScopeKind, string>>;
  readonly limits: Readonly<Record<LimitName, string>>;
  readonly priority: GatewayKey["priority"];
  readonly weight: string;
  readonly validDays: string;
}

export type ValidKey = Exclude<KeyEntry, { state: "invalid" }>;

const DAY_SECONDS = 86_400;

export function emptyForm(): KeyForm {
  return {
    name: "",
    owner: "",
    isForAll: false,
    lists: { namespaces: "", services: "", models: "" },
    limits: limitTexts({}),
    priority: "normal",
    weight: "1",
    validDays: "",
  };
}

export function formOf({ name, owner, scope, limits, priority, weight }: ValidKey): KeyForm {
  const list = (names: readonly string[] | undefined) => (names ?? []).join(", ");
  const lists = scope === "all" ? {} : scope;
  return {
    name,
    owner,
    isForAll: scope === "all",
    lists: {
      namespaces: list(lists.namespaces),
      services: list(lists.services),
      models: list(lists.models),
    },
    limits: limitTexts(limits),
    priority,
    weight: String(weight),
    validDays: "",
  };
}

function limitTexts(limits: KeyLimits): KeyForm["limits"] {
  const texts = LIMIT_NAMES.map((name) => [name, String(limits[name] ?? "")]);
  return Object.fromEntries(texts) as KeyForm["limits"];
}

export type FormField = "name" | "owner" | "scope" | "weight" | "validDays" | LimitName;

/** What the server has refused at a field. */
export interface FieldRefusal {
  readonly field: FormField;
  readonly message: string;
}

/** Fields that cannot be sent. The server checks the names themselves. */
export function wrongFields(form: KeyForm): readonly FormField[] {
  const isNumber = (text: string) => text.trim() === "" || wholeNumber(text) !== undefined;
  const wrong: FormField[] = LIMIT_NAMES.filter((limit) => !isNumber(form.limits[limit]));
  if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(form.name)) wrong.push("name");
  if (!form.isForAll && Object.values(form.lists).every((text) => namesOf(text).length === 0))
    wrong.push("scope");
  if (!isNumber(form.weight)) wrong.push("weight");
  if (!isNumber(form.validDays)) wrong.push("validDays");
  return wrong;
}

/** Requires a form without wrong fields. */
export function fieldsOf(form: KeyForm): KeyFields {
  const days = wholeNumber(form.validDays);
  return {
    owner: form.owner.trim() === "" ? form.name : form.owner.trim(),
    scope: form.isForAll ? "all" : scopeOf(form.lists),
    limits: Object.fromEntries(LIMIT_NAMES.map((limit) => [limit, wholeNumber(form.limits[limit])])),
    priority: form.priority,
    weight: wholeNumber(form.weight) ?? 1,
    validForSeconds: days === undefined ? undefined : days * DAY_SECONDS,
  };
}

const REFUSED_FIELDS: readonly (readonly [RegExp, FormField])[] = [
  [/^(metadata\.)?name$/, "name"],
  [/^owner$/, "owner"],
  [/^scope\b/, "scope"],
  [/^weight$/, "weight"],
  [/^validForSeconds$/, "validDays"],
  ...LIMIT_NAMES.map((limit) => [new RegExp(`^limits\\.${limit}$`), limit] as const),
];

/** Undefined for a refusal about no field of the form. The server begins its message with the field. */
export function refusalOf(error: Error): FieldRefusal | undefined {
  if (!(error instanceof ConsoleError)) return undefined;
  if (error.code === "GatewayKeyExists") return { field: "name", message: error.message };
  const [, path = "", message = ""] = /^([\w.]+): (.+)$/s.exec(error.message) ?? [];
  const field = REFUSED_FIELDS.find(([pattern]) => pattern.test(path))?.[1];
  return field === undefined ? undefined : { field, message };
}

function scopeOf(lists: KeyForm["lists"]): KeyScope {
  const list = (text: string) => (namesOf(text).length === 0 ? undefined : [...namesOf(text)]);
  return {
    namespaces: list(lists.namespaces),
    services: list(lists.services),
    models: list(lists.models),
  };
}

function namesOf(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((name) => name !== "");
}

function wholeNumber(text: string): number | undefined {
  const value = Number(text.replaceAll(/[\s_']/g, ""));
  return text.trim() !== "" && Number.isSafeInteger(value) && value >= 1 ? value : undefined;
}
