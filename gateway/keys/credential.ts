/** The credential in the headers of a request. Pure. */
import { MAX_CREDENTIAL } from "../../src/http/header-limit.ts";
import type { RequestHeaders } from "./authentication.ts";

/** `Authorization: Bearer` of OpenAI's clients, else `x-api-key` of Anthropic's. */
export function readCredential(headers: RequestHeaders): string | undefined {
  const [, bearer] = /^bearer +(\S+)\s*$/i.exec(single(headers.authorization) ?? "") ?? [];
  const credential = bearer ?? single(headers["x-api-key"])?.trim();
  return credential === undefined || credential === "" || credential.length > MAX_CREDENTIAL
    ? undefined
    : credential;
}

/** Undefined for a repeated header, which two programs may read differently. */
export function single(value: RequestHeaders[string]): string | undefined {
  if (typeof value === "string") return value;
  return value?.length === 1 ? value[0] : undefined;
}
