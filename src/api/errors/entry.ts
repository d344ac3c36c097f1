/** An entry of the catalog: `what` happened in general, and what to `do` about it, with a `command` if one helps. */
export interface ErrorEntry {
  readonly what: string;
  readonly do: string;
  readonly command?: string;
}
