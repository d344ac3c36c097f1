/** Parses the detach keys, and finds them in the input of a terminal. */
import { InvalidArgumentError } from "commander";

/** `ctrl-]`, `ctrl-p,ctrl-q`, `a`: control keys and characters, in the order in which they are pressed. */
export function parseDetachKeys(names: string): Buffer {
  const bytes = names.split(",").map((key) => {
    const control = /^ctrl-([a-z@[\\\]^_])$/i.exec(key)?.[1];
    if (control !== undefined) return control.toUpperCase().charCodeAt(0) - "@".charCodeAt(0);
    if (/^[!-~]$/.test(key)) return key.charCodeAt(0);
    throw new InvalidArgumentError("It must be keys such as ctrl-] or ctrl-p,ctrl-q.");
  });
  return Buffer.from(bytes);
}

/** Returns the names unchanged, if they are valid keys. */
export function checkDetachKeys(names: string): string {
  parseDetachKeys(names);
  return names;
}

/** Finds the key sequence in the input. The keys of an incomplete sequence are buffered. */
export class KeySequence {
  readonly #keys: Buffer;
  #found = 0;

  constructor(keys: Buffer) {
    this.#keys = keys;
  }

  /** `passed` is the input for the program. Input after the complete sequence is dropped. */
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

  /** Removes buffered keys until the remaining ones can be the start of the sequence. */
  #release(): readonly number[] {
    const buffered = this.#keys.subarray(0, this.#found);
    for (let length = 1; ; length += 1) {
      const suffix = buffered.subarray(length);
      if (!this.#keys.subarray(0, suffix.length).equals(suffix)) continue;
      this.#found = suffix.length;
      return [...buffered.subarray(0, length)];
    }
  }
}
