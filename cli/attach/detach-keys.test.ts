import fc from "fast-check";
import { expect, test } from "vitest";
import { KeySequence, parseDetachKeys } from "./detach-keys.ts";

test.each<[string, readonly number[]]>([
  ["ctrl-]", [29]],
  ["ctrl-p,ctrl-q", [16, 17]],
  ["ctrl-@,a", [0, 97]],
  ["CTRL-A", [1]],
])("%s stands for the bytes %j", (names, bytes) => {
  expect([...parseDetachKeys(names)]).toEqual(bytes);
});

test.each(["", "ctrl-", "ctrl-1", "ctrl-p,", "escape", " "])("%j is refused", (names) => {
  expect(() => parseDetachKeys(names)).toThrow("It must be keys such as");
});

test("all that is typed before the keys is passed on, and nothing of them, in whatever pieces it comes", () => {
  // Two letters, so that a sequence often begins within itself.
  const letters = (minLength: number, maxLength: number) =>
    fc.array(fc.constantFrom(1, 2), { minLength, maxLength }).map((list) => Buffer.from(list));
  fc.assert(
    fc.property(letters(1, 4), letters(0, 20), fc.integer({ min: 1, max: 5 }), (keys, typed, step) => {
      const sequence = new KeySequence(keys);
      const passed: Buffer[] = [];
      let isComplete = false;
      for (let at = 0; at < typed.length && !isComplete; at += step) {
        const taken = sequence.take(typed.subarray(at, at + step));
        passed.push(taken.passed);
        isComplete = taken.isComplete;
      }
      const all = Buffer.concat(passed);
      const at = typed.indexOf(keys);
      expect(isComplete).toBe(at !== -1);
      if (isComplete) expect(all).toEqual(typed.subarray(0, at));
      else expect(typed.subarray(0, all.length)).toEqual(all);
    }),
  );
});
