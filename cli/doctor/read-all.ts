/** Waits for readings concurrently, each with the same time limit, so that a tool that hangs delays no other reading. */
import type { Reading } from "../../src/doctor/readings.ts";
import { errorMessage } from "../../src/util/error-message.ts";

/** Never rejects: a failure becomes an unknown reading. Readings that a system does not have are omitted. */
export async function readAll<T extends object>(
  started: { readonly [Key in keyof T]: Promise<T[Key]> },
  limitMs: number,
): Promise<{ readonly [Key in keyof T]?: Exclude<T[Key], undefined> }> {
  const taken = await Promise.all(
    Object.entries<Promise<unknown>>(started).map(
      async ([name, reading]) => [name, await within(name, reading, limitMs)] as const,
    ),
  );
  return Object.fromEntries(taken.filter(([, reading]) => reading !== undefined)) as {
    [Key in keyof T]?: Exclude<T[Key], undefined>;
  };
}

/** Wraps a value that is always known. */
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
  const timedOut = new Promise<{ readonly unknown: string }>((resolve) => {
    timer = setTimeout(() => resolve({ unknown: `${name}: no answer within ${limitMs / 1_000} s` }), limitMs);
  });
  const failed = (error: unknown) => ({
    unknown: `${name}: ${errorMessage(error)}`,
  });
  return Promise.race([reading.catch(failed), timedOut]).finally(() => clearTimeout(timer));
}
