/** The account that agent and engines run as. */
export type AccountState =
  | { readonly at: "missing" }
  /** The creation was interrupted. Creating the account again completes it. */
  | { readonly at: "incomplete" }
  /** `isOurs`: install created the account, so uninstall may remove it. */
  | { readonly at: "present"; readonly uid: number; readonly gid: number; readonly isOurs: boolean };

export interface Accounts {
  readonly observe: (name: string) => Promise<AccountState>;
  /** Creates or completes an account without password, shell and login. `home` becomes HOME of the engines. */
  readonly create: (name: string, home: string) => Promise<void>;
  readonly remove: (name: string) => Promise<void>;
}

/** The full name of an account that install created. */
export const FULL_NAME = "Metalbridge agent";
