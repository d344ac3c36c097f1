/** Splits a byte stream into lines. Works on bytes, because a chunk may end inside a character. */

export interface LineSplitter {
  /** Returns the lines that `chunk` completes. Throws if a line exceeds the limit. */
  readonly push: (chunk: Uint8Array) => string[];
}

const NEWLINE = 0x0a;

/** Stores the pieces of an unfinished line separately, so that a huge line costs one copy instead of one per chunk. */
export function createLineSplitter(limitBytes: number): LineSplitter {
  let pieces: Uint8Array[] = [];
  let pendingBytes = 0;

  const push = (chunk: Uint8Array): string[] => {
    const lines: string[] = [];
    let from = 0;
    for (let to = chunk.indexOf(NEWLINE); to !== -1; to = chunk.indexOf(NEWLINE, from)) {
      const line = Buffer.concat([...pieces, chunk.subarray(from, to)]).toString("utf8");
      pieces = [];
      pendingBytes = 0;
      from = to + 1;
      if (line.trim() !== "") lines.push(line);
    }
    if (from < chunk.length) {
      pieces.push(chunk.subarray(from));
      pendingBytes += chunk.length - from;
    }
    if (pendingBytes > limitBytes) throw new Error(`a line is longer than ${limitBytes} bytes`);
    return lines;
  };

  return { push };
}
