/** Parses the output of macOS tools. Unknown rows are ignored, and missing ones are absent. Pure. */

/** Parses lines `key: value` of sysctl without -n, or `key = value`. */
export function parseSysctl(text: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const line of text.split("\n")) {
    const match = /^([A-Za-z0-9_.]+)(?::| =)\s?(.*)$/.exec(line);
    if (match?.[1] !== undefined) values.set(match[1], (match[2] ?? "").trim());
  }
  return values;
}

/** A whole number, or undefined. */
export function parseCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

export interface VmStat {
  readonly pageBytes: number;
  readonly pages: ReadonlyMap<string, number>;
}

/** Parses vm_stat. The page size is only in the header. New chips add rows. */
export function parseVmStat(text: string): VmStat | undefined {
  const header = /page size of (\d+) bytes/.exec(text)?.[1];
  if (header === undefined) return undefined;
  const pages = new Map<string, number>();
  for (const line of text.split("\n")) {
    const match = /^"?([^":]+)"?:\s+(\d+)\.?\s*$/.exec(line);
    if (match?.[1] !== undefined) pages.set(match[1], Number(match[2]));
  }
  return { pageBytes: Number(header), pages };
}

/** Memory available for programs: all memory except wired pages, compressed pages, and anonymous pages that are not purgeable. */
export function availableBytes({ pageBytes, pages }: VmStat): number | undefined {
  const free = pages.get("Pages free");
  // File-backed pages include the speculative ones.
  const files = pages.get("File-backed pages");
  if (free === undefined || files === undefined) return undefined;
  return (free + files + (pages.get("Pages purgeable") ?? 0)) * pageBytes;
}

/** The same sum from the counters of sysctl; undefined if one is missing. */
export function availableByCounters(values: ReadonlyMap<string, string>): number | undefined {
  const pageBytes = parseCount(values.get("vm.pagesize"));
  const free = parseCount(values.get("vm.page_free_count"));
  const files = parseCount(values.get("vm.page_pageable_external_count"));
  if (pageBytes === undefined || free === undefined || files === undefined) return undefined;
  return (free + files + (parseCount(values.get("vm.page_purgeable_count")) ?? 0)) * pageBytes;
}

/** Used bytes in `vm.swapusage`. Some locales use a comma. */
export function parseSwapUsed(text: string | undefined): number | undefined {
  const match = /used = (\d+)[.,](\d+)([KMG])/.exec(text ?? "");
  if (match === null) return undefined;
  const unit = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }[match[3] ?? "M"] ?? 2 ** 20;
  return Math.round(Number(`${match[1]}.${match[2]}`) * unit);
}

/** Parses `footprint -f bytes`, which includes Metal and compressed memory, unlike `ps`. */
export function parseFootprint(text: string | undefined): number | undefined {
  return parseCount(/^\s*phys_footprint: (\d+) B$/m.exec(text ?? "")?.[1]);
}

/** Parses `kern.boottime: { sec = 1763600000, usec = 0 } Thu …`. */
export function parseBootTime(text: string | undefined): string | undefined {
  const seconds = /sec = (\d+)/.exec(text ?? "")?.[1];
  return seconds === undefined ? undefined : new Date(Number(seconds) * 1000).toISOString();
}

/** ProductVersion with its extra from `sw_vers`, such as `15.6.1 (a)`. */
export function parseSwVers(text: string | undefined): string | undefined {
  const version = /^ProductVersion:\s*(\S+)/m.exec(text ?? "")?.[1];
  const extra = /^ProductVersionExtra:\s*(\S+)/m.exec(text ?? "")?.[1];
  return version === undefined || extra === undefined ? version : `${version} ${extra}`;
}

/** GPU cores from `ioreg -c IOAccelerator`. */
export function parseGpuCores(text: string | undefined): number | undefined {
  return parseCount(/"gpu-core-count"\s*=\s*(\d+)/.exec(text ?? "")?.[1]);
}

/** The platform's UUID from `ioreg -c IOPlatformExpertDevice`. */
export function parsePlatformUuid(text: string | undefined): string | undefined {
  return /"IOPlatformUUID"\s*=\s*"([0-9A-Fa-f-]{36})"/.exec(text ?? "")?.[1];
}
