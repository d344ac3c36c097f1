/** Tests run in Node, of which the console itself has no types. */
declare const process: { readonly cpuUsage: (before?: object) => { readonly user: number } };

/** CPU time that some work takes in a test, in milliseconds. */
export function cpuMilliseconds(work: () => void): number {
  const before = process.cpuUsage();
  work();
  return process.cpuUsage(before).user / 1_000;
}
