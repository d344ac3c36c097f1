/** `llama-server --list-devices`: the memory budget of the GPU, readable without root. */

export interface Device {
  readonly name: string;
  readonly description: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
}

const MIB = 1024 * 1024;

/** Lines `  MTL0: Apple M4 Max (110100 MiB, 110100 MiB free)`; undefined where the list is missing altogether. */
export function parseDevices(text: string): readonly Device[] | undefined {
  const lines = text.split(/\r?\n/);
  const start = lines.findIndex((line) => line.startsWith("Available devices:"));
  if (start < 0) return undefined;
  return lines.slice(start + 1).flatMap((line) => {
    const match = /^\s+([^\s:]+): (.*) \((\d+) MiB, (\d+) MiB free\)\s*$/.exec(line);
    if (match === null) return [];
    const [, name = "", description = "", total, free] = match;
    return [{ name, description, totalBytes: Number(total) * MIB, freeBytes: Number(free) * MIB }];
  });
}
