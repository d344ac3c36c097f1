/** Values of a stacked chart. Pure. */

/** The sum of each series and of those before it. */
export function stacked(all: readonly (readonly (number | null)[])[]): readonly (readonly number[])[] {
  let below: readonly number[] = [];
  return all.map((values) => {
    below = values.map((value, index) => (value ?? 0) + (below[index] ?? 0));
    return below;
  });
}

/** What each series has at one time. */
export function pointValues(
  series: readonly { readonly label: string; readonly values: readonly (number | null)[] }[],
  index: number,
): readonly { readonly label: string; readonly value: number | null }[] {
  return series.map(({ label, values }) => ({ label, value: values[index] ?? null }));
}
