/** Circles in a directed graph: groups of nodes of which each reaches every other (Tarjan's algorithm). */

export type ImportGraph = ReadonlyMap<string, ReadonlySet<string>>;

/** Each circle with its nodes in alphabetical order. */
export function circlesIn(graph: ImportGraph): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const visit = (node: string): void => {
    const own = index.size;
    index.set(node, own);
    low.set(node, own);
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node) ?? own, low.get(next) ?? own));
    }
    if (low.get(node) !== own) return;
    const circle = stack.splice(stack.indexOf(node));
    if (circle.length > 1) circles.push(circle.toSorted());
  };
  for (const node of graph.keys()) if (!index.has(node)) visit(node);
  return circles;
}
