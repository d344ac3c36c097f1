import { describe } from "vitest";

/** Skips tests that this machine cannot run, with the reason in their title. */
export function describeUnless(why: string | undefined, title: string, body: () => void): void {
  if (why === undefined) describe(title, body);
  else describe.skip(`${title} (skipped: ${why})`, body);
}
