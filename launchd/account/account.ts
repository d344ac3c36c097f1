/** The account that agent and engines run as. */
export type AccountState =
  | { readonly at: "missing" }
  /** An interrupted creation: created again, which completes it. */
  | { readonly at: "incomplete" }
  /** `isOurs`: install created it, so uninstall may remove it. */
  | { readonly at: "present"; readonly uid: number; readonly gid: number; readonly isOurs: boolean };

export interface Accounts {
  readonly observe: (name: string) => Promise<AccountState>;
  /** Without password, shell and login; `home` is what engines find as HOME. Completes one that is incomplete. */
  readonly create: (name: string, home: string) => Promise<void>;
  readonly remove: (name: string) => Promise<void>;
}

/** The full name of an account that install created. */
export const FULL_NAME = "Metalbridge agent";
