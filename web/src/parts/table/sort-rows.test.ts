import { expect, test } from "vitest";
import { createRandom } from "../../../../test/bed/random.ts";
import { compareBy, sortRows } from "./sort-rows.ts";

interface Row {
  readonly key: string;
  readonly value: string | number | undefined;
}

const order = (isDescending = false) =>
  compareBy<Row>({ value: ({ value }) => value, isDescending, keyOf: ({ key }) => key });
const row = (key: string, value: string | number | undefined): Row => ({ key, value });
const keys = (rows: readonly Row[]) => rows.map(({ key }) => key).join("");

test.each([
  ["numbers in words count", [row("a", "mac-10"), row("b", "mac-2")], "ba", "ab"],
  ["numbers", [row("a", 10), row("b", 9), row("c", 100)], "bac", "cab"],
  ["rows without a value are last", [row("a", undefined), row("b", 1), row("c", 2)], "bca", "cba"],
  ["equal values are in the order of their keys", [row("b", 1), row("a", 1), row("c", 0)], "cab", "abc"],
])("%s", (_, rows, ascending, descending) => {
  expect(keys(sortRows(rows, [], order()))).toBe(ascending);
  expect(keys(sortRows(rows, [], order(true)))).toBe(descending);
});

test("a column that does not exist sorts by key", () => {
  const compare = compareBy<Row>({ value: undefined, isDescending: true, keyOf: ({ key }) => key });
  expect(keys(sortRows([row("b", 1), row("a", 2)], [], compare))).toBe("ab");
});

test("after any changes the order is that of a complete sort", () => {
  const random = createRandom(3);
  const compare = order();
  const rows = new Map<string, Row>();
  let sorted: readonly Row[] = [];
  for (let round = 0; round < 300; round += 1) {
    for (let change = random.integer(0, 8); change > 0; change -= 1) {
      const key = `key-${random.integer(0, 60)}`;
      if (random.integer(0, 3) === 0) rows.delete(key);
      else rows.set(key, row(key, random.integer(0, 20)));
    }
    sorted = sortRows([...rows.values()], sorted, compare);
    expect(sorted).toEqual(sortRows([...rows.values()], [], compare));
    expect(sorted).toHaveLength(rows.size);
  }
});

test("a change of 20 of 5,000 rows compares only these", () => {
  let compared = 0;
  const compare = order();
  const counting = (one: Row, other: Row) => {
    compared += 1;
    return compare(one, other);
  };
  const rows = Array.from({ length: 5_000 }, (_, index) => row(`key-${index}`, `service-${index}`));
  const sorted = sortRows(rows, [], counting);
  compared = 0;
  const changed = rows.map((one, index) => (index % 250 === 0 ? { ...one } : one));
  expect(sortRows(changed, sorted, counting)).toHaveLength(5_000);
  expect(compared).toBeLessThan(500);
});

test("rows that are the same are the same array", () => {
  const rows = [row("b", 1), row("a", 2)];
  const sorted = sortRows(rows, [], order());
  expect(sortRows([...rows], sorted, order())).toBe(sorted);
});
