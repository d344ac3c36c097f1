/** The file of `metalbridge host add -f`: a list of hosts, as YAML or JSON, validated completely before anything is written. */
import { createReadStream } from "node:fs";
import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { type Document, isNode, LineCounter, parseDocument } from "yaml";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { hostName } from "../../src/api/fields/shared.ts";
import { hostSpecSchema } from "../../src/api/host-spec.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { errorMessage } from "../../src/util/error-message.ts";

const HOSTS_FILE_MAX_BYTES = 1024 * 1024;
export const HOSTS_FILE_MAX = 2_000;
/** A file with the wrong structure has a problem in each entry. */
const PROBLEMS_SHOWN = 20;

const LIST_NEEDED =
  "it must be a list of hosts, each with a name and addresses: - {name: mac-01, addresses: [192.168.1.21]}";
/** Messages for the error codes of a file that cannot be read. */
const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  ENOTDIR: "there is no such file",
  EISDIR: "it is a folder",
  EACCES: "this user may not read it",
};

const { addresses, unschedulable, memory, disk } = hostSpecSchema.shape;

const hostsSchema = z
  .array(
    z.strictObject({
      name: hostName("Name of the Host."),
      addresses: z
        .array(addresses.unwrap().element.refine(isAddressOrNetwork, "neither an IP address nor a CIDR"))
        .min(1, "at least one address is needed")
        .max(16),
      labels: z.record(z.string().max(317), z.string().max(63)).optional(),
      unschedulable,
      memory: z.strictObject(memory.unwrap().shape).optional(),
      disk: z.strictObject(disk.unwrap().shape).optional(),
    }),
    LIST_NEEDED,
  )
  .min(1, "there is no host in it")
  .max(HOSTS_FILE_MAX, `more than ${HOSTS_FILE_MAX} hosts: split the file`);

export type ListedHost = z.output<typeof hostsSchema>[number];
export interface HostsFile {
  readonly hosts: readonly ListedHost[];
  /** The line of the entry with this index: `hosts.yaml:12`. */
  readonly lineOf: (index: number) => string;
}

/** `-` is standard input. Throws HostsFileInvalid with every problem in the file. */
export async function readHostsFile(file: string): Promise<HostsFile> {
  const name = file === "-" ? "standard input" : file;
  return parseHostsFile(await readLimited(name, file === "-" ? process.stdin : createReadStream(file)), name);
}

export function parseHostsFile(text: string, name: string): HostsFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const where = (path: readonly PropertyKey[]) => `${name}:${lines.linePos(offsetOf(document, path)).line}`;
  const [unread] = document.errors;
  if (unread !== undefined) {
    const isSecond = unread.code === "MULTIPLE_DOCS";
    const why = isSecond ? "a second YAML document begins here: put all hosts into one list" : unread.message;
    throw invalidHostsFile([`${name}:${lines.linePos(unread.pos[0]).line}: ${why}`]);
  }
  const content = contentOf(document, name);
  if (content === null) throw invalidHostsFile([`${where([])}: the file is empty: ${LIST_NEEDED}`]);
  const parsed = hostsSchema.safeParse(content);
  if (!parsed.success)
    throw invalidHostsFile(parsed.error.issues.flatMap((issue) => problemsOf(issue, where)));
  const hosts = parsed.data;
  const lineOf = (index: number) => where([index]);
  const problems = duplicatesIn(hosts, lineOf);
  if (problems.length > 0) throw invalidHostsFile(problems);
  return { hosts, lineOf };
}

/** The canonical form of an address. Undefined for a network, which several hosts may share. */
export function canonicalAddress(text: string): string | undefined {
  if (isIP(text) === 4) return text;
  return isIP(text) === 6 && !text.includes("%") ? new URL(`http://[${text}]`).hostname : undefined;
}

/** An IP address or a CIDR. */
export function isAddressOrNetwork(text: string): boolean {
  const [address = "", bits, ...others] = text.split("/");
  const most = { 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return (
    most > 0 &&
    others.length === 0 &&
    (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most))
  );
}

export function invalidHostsFile(problems: readonly string[]): MetalbridgeError {
  const shown = problems.slice(0, PROBLEMS_SHOWN);
  const more = problems.length > shown.length ? [`and ${problems.length - shown.length} more`] : [];
  return new MetalbridgeError(
    "HostsFileInvalid",
    `nothing was added: ${[...shown, ...more].map((line) => `\n  ${line}`).join("")}`,
  );
}

async function readLimited(name: string, stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      bytes += (chunk as Buffer).length;
      if (bytes > HOSTS_FILE_MAX_BYTES) break;
      chunks.push(chunk as Buffer);
    }
  } catch (cause) {
    const why = UNREADABLE[systemCode(cause) ?? ""] ?? errorMessage(cause);
    throw new MetalbridgeError(
      "HostsFileInvalid",
      `cannot read ${name}: ${why}`,
      {
        summary: "pass a file that this user can read, or - for standard input",
        command: "metalbridge host add -f <file> --dry-run",
      },
      { cause },
    );
  }
  if (bytes > HOSTS_FILE_MAX_BYTES) throw invalidHostsFile([`${name}: longer than 1 MiB`]);
  return Buffer.concat(chunks).toString("utf8");
}

function contentOf(document: Document, name: string): unknown {
  try {
    return document.toJS();
  } catch (cause) {
    // The document has aliases that expand too much.
    throw invalidHostsFile([`${name}: ${errorMessage(cause)}`]);
  }
}

function problemsOf(
  issue: z.core.$ZodIssue,
  where: (path: readonly PropertyKey[]) => string,
): readonly string[] {
  const at = (path: readonly PropertyKey[]) => {
    const [index, ...keys] = path;
    const entry =
      index === undefined ? "" : ` host ${Number(index) + 1}${keys.length > 0 ? ` ${keys.join(".")}` : ""}:`;
    return `${where(path)}:${entry}`;
  };
  if (issue.code === "unrecognized_keys")
    return issue.keys.map((key) => `${at([...issue.path, key])} unknown key`);
  return [`${at(issue.path)} ${issue.message}`];
}

/** Offset of the value at this path, or of the nearest value that contains it. */
function offsetOf(document: Document, path: readonly PropertyKey[]): number {
  for (let length = path.length; length >= 0; length -= 1) {
    const node = length === 0 ? document.contents : document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return 0;
}

function duplicatesIn(hosts: readonly ListedHost[], lineOf: (index: number) => string): readonly string[] {
  const names = new Map<string, number>();
  const owners = new Map<string, number>();
  return hosts.flatMap(({ name, addresses }, index) => {
    const at = `${lineOf(index)}: host ${index + 1}`;
    const twin = names.get(name);
    names.set(name, twin ?? index);
    const same = twin === undefined ? [] : [`${at}: the name ${name} is also at ${lineOf(twin)}`];
    const shared = addresses.flatMap((address) => {
      const one = canonicalAddress(address);
      const owner = one === undefined ? undefined : owners.get(one);
      if (one !== undefined) owners.set(one, owner ?? index);
      return owner === undefined ? [] : [`${at}: the address ${address} is also at ${lineOf(owner)}`];
    });
    return [...same, ...shared];
  });
}
