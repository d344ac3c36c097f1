/** Waits for readings side by side, each within the same limit: a tool that hangs costs its own answer, not the others. */
import type { Reading } from "../../src/doctor/readings.ts";
import { errorMessage } from "../../src/util/error-message.ts";

/** Never rejects: what goes wrong in a reader is its reading. What a system does not have is left out. */
export async function readAll<T extends object>(
  begun: { readonly [Key in keyof T]: Promise<T[Key]> },
  limitMs: number,
): Promise<{ readonly [Key in keyof T]?: Exclude<T[Key], undefined> }> {
  const taken = await Promise.all(
    Object.entries<Promise<unknown>>(begun).map(
      async ([name, reading]) => [name, await within(name, reading, limitMs)] as const,
    ),
  );
  return Object.fromEntries(taken.filter(([, reading]) => reading !== undefined)) as {
    [Key in keyof T]?: Exclude<T[Key], undefined>;
  };
}

/** A value that is asked for without a reason for its absence. */
export async function knownReading<T>(value: Promise<T>): Promise<Reading<T>> {
  return { value: await value };
}

export function mapReading<T, U>(reading: Reading<T>, change: (value: T) => U): Reading<U> {
  return "unknown" in reading ? reading : { value: change(reading.value) };
}

function within<T>(
  name: string,
  reading: Promise<T>,
  limitMs: number,
): Promise<T | { readonly unknown: string }> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<{ readonly unknown: string }>((resolve) => {
    timer = setTimeout(() => resolve({ unknown: `${name}: no answer within ${limitMs / 1_000} s` }), limitMs);
  });
  const failed = (error: unknown) => ({
    unknown: `${name}: ${errorMessage(error)}`,
  });
  return Promise.race([reading.catch(failed), late]).finally(() => clearTimeout(timer));
}
