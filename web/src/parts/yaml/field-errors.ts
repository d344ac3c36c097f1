/** The fields that the API server refuses, from its answer, in plain words. Pure. */
import { ConsoleError, type FieldCause } from "../../api/request.ts";

/** Empty if the error is about no field. */
export function fieldErrorsOf(error: Error): readonly FieldCause[] {
  if (!(error instanceof ConsoleError)) return [];
  if (error.causes.length === 0) return unknownFields(error.message);
  return error.causes.map(({ field, message }) => ({
    field: field.replace(/^<nil>$/, ""),
    message: plainMessage(message),
  }));
}

/** The API server names unknown fields before it checks values: without them, `retry` fails for the values. */
export async function allFieldErrors(
  error: Error,
  retry: () => Promise<unknown>,
): Promise<readonly FieldCause[]> {
  const found = fieldErrorsOf(error);
  if (!isStrict(error)) return found;
  try {
    await retry();
    return found;
  } catch (other) {
    return [...found, ...fieldErrorsOf(other as Error)];
  }
}

function isStrict({ message }: Error): boolean {
  return message.includes("strict decoding error");
}

/** Strict validation names unknown and repeated fields in its message only. */
function unknownFields(message: string): readonly FieldCause[] {
  if (!isStrict(new Error(message))) return [];
  return [...message.matchAll(/(unknown|duplicate) field "([^"]+)"/g)].map(([, kind = "", field = ""]) => ({
    field,
    message: kind === "unknown" ? "There is no such field." : "The field is there twice.",
  }));
}

const TYPES: Readonly<Record<string, string>> = {
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  string: "a text",
  array: "a list",
  object: "fields",
};

function plainMessage(message: string): string {
  if (message.startsWith("Required value")) return "This field is missing.";
  const [, value, allowed] = /^Unsupported value: (.+?): supported values: (.+)$/s.exec(message) ?? [];
  if (value !== undefined) return `${value} is not allowed here. Use one of ${allowed}.`;
  const [, type = ""] = /in body must be of type (\w+):/.exec(message) ?? [];
  if (Object.hasOwn(TYPES, type)) return `Write ${TYPES[type]} here.`;
  return message.replace(/^Invalid value: ("(object|array)": )?/, "").replace(/\S+ in body /, "");
}
