/** The fields that the API server refuses, from its answer. Pure. */
import { ConsoleError, type FieldCause } from "../../api/request.ts";

/** Empty if the error is about no field. */
export function fieldErrorsOf(error: Error): readonly FieldCause[] {
  if (!(error instanceof ConsoleError)) return [];
  if (error.causes.length > 0)
    return error.causes.map(({ field, message }) => ({ field: field.replace(/^<nil>$/, ""), message }));
  return unknownFields(error.message);
}

/** Strict validation names unknown and repeated fields in its message only. */
function unknownFields(message: string): readonly FieldCause[] {
  if (!message.includes("strict decoding error")) return [];
  return [...message.matchAll(/(unknown|duplicate) field "([^"]+)"/g)].map(([, kind = "", field = ""]) => ({
    field,
    message: kind === "unknown" ? "There is no such field." : "The field is there twice.",
  }));
}
