/** What an invariant is: a rule over a recording, which says where it was broken. Pure. */
import type { Recording } from "../observe/recording.ts";

export interface Violation {
  readonly invariant: string;
  /** When it was broken. */
  readonly at: number;
  readonly message: string;
  /** Names whose events explain it: hosts, services, replicas, uids. */
  readonly about: readonly string[];
}

export interface Invariant {
  readonly name: string;
  /** What it promises, in one sentence. */
  readonly promise: string;
  /** `now` is the end of the recording so far; open spans last until then. */
  readonly check: (recording: Recording, now: number) => readonly Violation[];
}
