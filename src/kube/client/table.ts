/** Objects in the tabular form of the API server, with the columns of `kubectl get`. */
import { z } from "zod";
import type { ObjectMeta } from "../../api/metadata.ts";
import { failureOfBadBody } from "../errors.ts";
import { collectionPath, selectorQuery } from "../paths.ts";
import type { ApiResult, Kind, KubeObject, ListOptions } from "../types.ts";
import type { KubeConnection } from "./connect.ts";

const tableSchema = z.object({
  columnDefinitions: z.array(z.object({ name: z.string(), priority: z.number().default(0) })),
  rows: z
    .array(z.object({ cells: z.array(z.unknown()), object: z.looseObject({ metadata: z.looseObject({}) }) }))
    .nullish(),
});

export interface PrintedRow {
  readonly cells: readonly string[];
  readonly metadata: ObjectMeta;
}

export interface PrintedTable {
  /** Columns with a priority above 0 are for wide output. */
  readonly columns: readonly { readonly name: string; readonly isWide: boolean }[];
  readonly rows: readonly PrintedRow[];
}

const TIMEOUT_MS = 10_000;

/** Prints the objects that the options select. */
export async function printTable(
  connection: KubeConnection,
  kind: Kind<KubeObject>,
  options: ListOptions,
): Promise<ApiResult<PrintedTable>> {
  const response = await connection.request({
    method: "GET",
    path: collectionPath(kind, options.namespace, selectorQuery(options)),
    accept: "application/json;as=Table;v=v1;g=meta.k8s.io",
    timeoutMs: TIMEOUT_MS,
  });
  if (!response.ok) return response;
  const read = tableSchema.safeParse(JSON.parse(response.value));
  if (!read.success) return { ok: false, error: failureOfBadBody(response.value) };
  const { columnDefinitions, rows } = read.data;
  return {
    ok: true,
    value: {
      columns: columnDefinitions.map(({ name, priority }) => ({ name, isWide: priority > 0 })),
      rows: (rows ?? []).map(({ cells, object }) => ({
        cells: cells.map((cell) => (cell === null || cell === undefined ? "" : String(cell))),
        metadata: object.metadata as unknown as ObjectMeta,
      })),
    },
  };
}
