/** Parses the two XML responses of bucket servers: a page of a list, and an error. Pure. */

export interface ListedObject {
  readonly key: string;
  readonly sizeBytes: number | undefined;
  /** True if the server can report the SHA-256. */
  readonly hasSha256: boolean;
}

export interface Page {
  readonly objects: readonly ListedObject[];
  /** Token for the next page; undefined on the last page. */
  readonly next: string | undefined;
}

/** The server's message is omitted, because it is untrusted text. */
export interface BucketError {
  readonly code: string;
  /** Region of the bucket, if the server reports it. */
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
}

/** Undefined for text that is not a page. */
export function parsePage(xml: string): Page | undefined {
  if (!xml.includes("<ListBucketResult")) return undefined;
  const isEncoded = textOf(xml, "EncodingType") === "url";
  const [head = "", ...entries] = xml.split("<Contents>");
  const objects = entries.map((entry) => {
    const key = textOf(entry, "Key") ?? "";
    const size = textOf(entry, "Size") ?? "";
    return {
      key: isEncoded ? decoded(key) : key,
      sizeBytes: /^\d{1,15}$/.test(size) ? Number(size) : undefined,
      hasSha256: entry.includes("<ChecksumAlgorithm>SHA256<"),
    };
  });
  const around = `${head}${entries.at(-1)?.split("</Contents>")[1] ?? ""}`;
  const isTruncated = textOf(around, "IsTruncated") === "true";
  return { objects, next: isTruncated ? textOf(around, "NextContinuationToken") : undefined };
}

const CODE = /^[A-Za-z]{1,64}$/;

/** Undefined for text that is not an error, or whose code is not a word. */
export function parseError(xml: string): BucketError | undefined {
  const code = xml.includes("<Error>") ? textOf(xml, "Code") : undefined;
  if (code === undefined || !CODE.test(code)) return undefined;
  return { code, region: textOf(xml, "Region"), endpoint: textOf(xml, "Endpoint") };
}

function textOf(xml: string, name: string): string | undefined {
  const from = xml.indexOf(`<${name}>`);
  const to = xml.indexOf(`</${name}>`, from);
  return from < 0 || to < 0 ? undefined : unescaped(xml.slice(from + name.length + 2, to));
}

const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

function unescaped(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{2,4}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const point = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}

function decoded(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll("+", " "));
  } catch {
    return key;
  }
}
