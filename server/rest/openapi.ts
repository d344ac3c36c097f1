/** The OpenAPI document of the density API, generated from the schemas that validate its input. */
import { z } from "zod";
import { type RestRoute, routes } from "./routes.ts";

const REFUSALS: Readonly<Record<number, string>> = {
  400: "A parameter is missing or invalid.",
  401: "The token is missing, or the cluster does not accept it.",
  403: "The token's account has no permission for this request.",
  503: "The API server does not respond, or the objects have not all been listed and scored yet; see Retry-After.",
};

export function openApiDocument(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Metalbridge density API",
      version: "v1",
      description:
        "Shows which models fit which machines of the cluster, and which models are placed there. Sizes named Gb are in GiB.",
    },
    paths,
    components: { securitySchemes: { bearer: { type: "http", scheme: "bearer" } } },
    security: [{ bearer: [] }],
  };
}

function operationOf(route: RestRoute): object {
  const { summary, body, response, method } = route;
  return {
    summary,
    parameters: [...pathParameters(route), ...queryParameters(route)],
    requestBody:
      body === undefined
        ? undefined
        : {
            required: true,
            content: { "application/json": { schema: schemaOf(body, "input") } },
          },
    responses: {
      200: {
        description: "OK",
        content: {
          "application/json": { schema: schemaOf(response, "output") },
          "text/event-stream": method === "GET" ? { schema: { type: "string" } } : undefined,
        },
      },
      304: method === "GET" ? { description: "The response matches If-None-Match." } : undefined,
      ...refusalsOf(route),
    },
  };
}

function refusalsOf({ refusals }: RestRoute): object {
  const all = { ...REFUSALS, ...refusals };
  return Object.fromEntries(
    Object.entries(all).map(([status, description]) => [
      status,
      { description, content: { "text/plain": { schema: { type: "string" } } } },
    ]),
  );
}

function pathParameters({ path }: RestRoute): readonly object[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, { readonly description?: string }>>;
  readonly required?: readonly string[];
}

function queryParameters({ query }: RestRoute): readonly object[] {
  const { properties = {}, required = [] } = schemaOf(query, "input") as ObjectSchema;
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: "query",
    required: required.includes(name),
    description,
    schema,
  }));
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, target: "draft-2020-12" });
  return rest;
}
