/** A server that is named by its URL instead of a service. */
import { InvalidArgumentError } from "commander";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { readJsonResponse } from "../endpoint/request.ts";
import type { EndpointTarget } from "../endpoint/target.ts";

/** Reads the URL of a server with an OpenAI API, with or without the final /v1. */
export function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !["http:", "https:"].includes(url.protocol) || url.username !== "" || url.search !== "")
    throw new InvalidArgumentError(
      "It must be a URL such as http://127.0.0.1:8080 or https://gateway.example/v1.",
    );
  return url;
}

const modelsSchema = z.looseObject({ data: z.array(z.looseObject({ id: z.string() })).min(1) });

interface UrlOptions {
  /** Default: the first model that the server lists. */
  readonly model?: string | undefined;
  readonly apiKey?: string | undefined;
  readonly ca?: string | undefined;
  readonly signal: AbortSignal;
}

/** Throws NoAnswer if the server does not list its models. */
export async function urlTarget(
  { protocol, hostname, port, pathname }: URL,
  { model, apiKey, ca, signal }: UrlOptions,
): Promise<EndpointTarget> {
  const isTls = protocol === "https:";
  const address = hostname.replace(/^\[|\]$/g, "");
  const endpoint = { address, port: port === "" ? (isTls ? 443 : 80) : Number(port) };
  const basePath = pathname.replace(/\/+$/, "").replace(/\/v1$/, "");
  const tls = isTls ? { servername: address, ca } : undefined;
  const target = { endpoints: [endpoint], model: model ?? "", apiKey, basePath, tls };
  if (model !== undefined) return target;
  const listed = modelsSchema.safeParse(
    await readJsonResponse({ target, endpoint, path: "/v1/models", signal }),
  );
  const [first] = listed.data?.data ?? [];
  if (first === undefined)
    throw new MetalbridgeError("NoAnswer", `${hostname} lists no models at /v1/models`, {
      summary: "name the model with --model",
    });
  return { ...target, model: first.id };
}
