/** The keys that detach, as they are written and as they come from a terminal. */
import { InvalidArgumentError } from "commander";

/** `ctrl-]`, `ctrl-p,ctrl-q`, `a`: control keys and characters, in the order in which they are pressed. */
export function parseDetachKeys(names: string): Buffer {
  const bytes = names.split(",").map((key) => {
    const control = /^ctrl-([a-z@[\\\]^_])$/i.exec(key)?.[1];
    if (control !== undefined) return control.toUpperCase().charCodeAt(0) - "@".charCodeAt(0);
    if (/^[!-~]$/.test(key)) return key.charCodeAt(0);
    throw new InvalidArgumentError("It has to be keys such as ctrl-] or ctrl-p,ctrl-q.");
  });
  return Buffer.from(bytes);
}

/** The names as they were given, if they are keys. */
export function checkDetachKeys(names: string): string {
  parseDetachKeys(names);
  return names;
}

/** Finds the keys in what is typed; those of a sequence that is not finished are held back. */
export class KeySequence {
  readonly #keys: Buffer;
  #found = 0;

  constructor(keys: Buffer) {
    this.#keys = keys;
  }

  /** `passed`: what the program gets. What follows the whole sequence is dropped. */
  take(typed: Buffer): { readonly passed: Buffer; readonly isComplete: boolean } {
    const passed: number[] = [];
    for (const byte of typed) {
      while (this.#found > 0 && byte !== this.#keys[this.#found]) passed.push(...this.#release());
      if (byte === this.#keys[this.#found]) this.#found += 1;
      else passed.push(byte);
      if (this.#found === this.#keys.length) return { passed: Buffer.from(passed), isComplete: true };
    }
    return { passed: Buffer.from(passed), isComplete: false };
  }

  /** The held keys up to where another beginning of the sequence may be. */
  #release(): readonly number[] {
    const held = this.#keys.subarray(0, this.#found);
    for (let length = 1; ; length += 1) {
      const rest = held.subarray(length);
      if (!this.#keys.subarray(0, rest.length).equals(rest)) continue;
      this.#found = rest.length;
      return [...held.subarray(0, length)];
    }
  }
}
