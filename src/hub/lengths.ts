/** Lengths and ranges in the headers of a response. */

export interface ContentRange {
  readonly start: number;
  /** Offset of the last byte. */
  readonly end: number;
  /** Size of the complete file; undefined if the server does not report it. */
  readonly totalBytes: number | undefined;
}

/** A Content-Range with bytes; undefined for any other text. */
export function parseContentRange(text: string | undefined): ContentRange | undefined {
  const [, start, end, total] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(text ?? "") ?? [];
  return start === undefined
    ? undefined
    : { start: Number(start), end: Number(end), totalBytes: parseLength(total) };
}

/** A content length; undefined for invalid text. */
export function parseLength(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
