/** What a catalog entry says: `what` happened in general, and what to `do` about it, with a `command` where one helps. */
export interface ErrorEntry {
  readonly what: string;
  readonly do: string;
  readonly command?: string;
}
