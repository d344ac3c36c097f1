/** `metalbridge catalog update`: reads the API of the Hub, and writes records to a file of the user. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { type HubModel, hubModelSchema, recordFromHub } from "../../fitness/catalog/from-hub.ts";
import { type CatalogRecord, readCatalog } from "../../fitness/catalog/record.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type HttpRules, readResponseText, sendSourceRequest } from "../../src/hub/client.ts";
import { permanent, plainUrl, SourceFailure, statusFailure } from "../../src/hub/failure.ts";
import { ifExists, writeFileAtomic } from "../../src/util/atomic-file.ts";
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import { exitCodes } from "../program/exit-codes.ts";
import { printLine } from "../program/output.ts";
import { catalogUnreadable, readCatalogFiles } from "./read.ts";

export interface UpdateFlags {
  readonly write: string;
  readonly gguf?: readonly string[];
  readonly endpoint: string;
  readonly tokenFile?: string;
}

const MAX_ANSWER_BYTES = 32 << 20;
/** Private addresses are allowed, because the command has only the access of its user. */
const RULES: HttpRules = {
  allowLoopback: true,
  allowPrivate: true,
  connectMs: 10_000,
  stallMs: 15_000,
  maxRedirects: 10,
};

/** Without names, updates all records in the file. A record is not changed if the Hub's answer cannot be used. */
export async function updateCatalog(names: readonly string[], flags: UpdateFlags): Promise<void> {
  const { write: file, gguf = [] } = flags;
  if (gguf.length > 0 && names.length !== 1)
    throw new MetalbridgeError("CatalogModelUnknown", "--gguf is for one model", {
      summary: "name the model whose files these repositories hold",
    });
  const current = readCatalog(await readIfExists(file));
  if (current.refused.length > 0)
    throw catalogUnreadable(
      file,
      `has an unusable record at ${current.refused[0]?.where}: ${current.refused[0]?.why}; nothing was written`,
    );
  const records = new Map(current.records.map((record) => [record.name.toLowerCase(), record]));
  const known = new Map(
    (await readCatalogFiles()).records.map((record) => [record.name.toLowerCase(), record]),
  );
  const hub = await openHub(flags);
  let failures = 0;
  for (const name of names.length > 0 ? names : current.records.map((record) => record.name)) {
    const key = name.toLowerCase();
    const before = records.get(key) ?? known.get(key);
    const after = await recordOf(hub, before?.name ?? name, before, gguf);
    if (typeof after === "string") failures += 1;
    else records.set(key, after);
    printLine(
      `${name}: ${typeof after === "string" ? `not changed: ${after}` : describeChange(before, after)}`,
    );
  }
  const lines = [...records.values()].map((record) => `${JSON.stringify(record)}\n`);
  await writeFileAtomic(file, lines.join(""));
  if (failures > 0) process.exitCode = exitCodes.failed;
}

async function readIfExists(file: string): Promise<string> {
  const text = await ifExists(readFile(file, "utf8")).catch((cause: unknown) => {
    throw catalogUnreadable(file, "cannot be read", { cause });
  });
  return text ?? "";
}

function describeChange(before: CatalogRecord | undefined, after: CatalogRecord): string {
  if (before === undefined) return "added";
  const old: Readonly<Record<string, unknown>> = before;
  const fields = Object.entries(after).filter(
    ([field, value]) => !isDeepEqual(old[field] ?? undefined, value ?? undefined),
  );
  return fields.length === 0 ? "unchanged" : `updated ${fields.map(([field]) => field).join(", ")}`;
}

/** Resolves with the reason if there is no record. */
async function recordOf(
  hub: Hub,
  name: string,
  known: CatalogRecord | undefined,
  repositories: readonly string[],
): Promise<CatalogRecord | string> {
  if (!/^[\w.-]+\/[\w.-]+$/.test(name)) return "not a repository (org/name)";
  try {
    const model = await hub.model(name);
    const config = await hub.json(`/${name}/resolve/${encodeURIComponent(model.sha ?? "main")}/config.json`);
    const gguf: HubModel[] = [];
    const sources =
      repositories.length > 0 ? repositories : (known?.gguf_sources ?? []).map(({ repo }) => repo);
    for (const repository of sources) gguf.push(await hub.model(repository));
    return recordFromHub({ model, config, gguf }, known);
  } catch (error) {
    if (error instanceof SourceFailure) return `${error.error.code}: ${error.message}`;
    throw error;
  }
}

interface Hub {
  readonly model: (name: string) => Promise<HubModel>;
  readonly json: (path: string) => Promise<unknown>;
}

async function openHub({ endpoint, tokenFile }: UpdateFlags): Promise<Hub> {
  const base = endpoint.replace(/\/+$/, "");
  const token = tokenFile === undefined ? undefined : (await readIfExists(tokenFile)).trim();
  const authorize = async (): Promise<Record<string, string>> =>
    token === undefined ? {} : { authorization: `Bearer ${token}` };
  const json = async (path: string): Promise<unknown> => {
    const url = new URL(`${base}${path}`);
    const { signal } = new AbortController();
    const answer = await sendSourceRequest(
      url,
      { headers: { accept: "application/json" }, authorize, signal },
      RULES,
    );
    try {
      if (answer.status !== 200) throw statusFailure(url, answer.status, answer.headers["retry-after"]);
      return JSON.parse(await readResponseText(answer, MAX_ANSWER_BYTES, signal));
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw permanent("SourceRefused", `${plainUrl(url)} does not answer with JSON`, error);
    } finally {
      answer.body.destroy();
    }
  };
  return {
    json,
    model: async (name) => {
      const parsed = hubModelSchema.safeParse(await json(`/api/models/${name}?blobs=true`));
      if (parsed.success) return parsed.data;
      const why = z.prettifyError(parsed.error).split("\n")[0];
      throw permanent(
        "SourceRefused",
        `${base} does not answer like the Hugging Face API for ${name}: ${why}`,
      );
    },
  };
}
