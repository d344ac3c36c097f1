/** The dialog of each action on a key. */
import { useQueryClient } from "@tanstack/react-query";
import { type KeyEntry, type KeyList, lastKeyWords } from "../../../../../src/gateway/key.ts";
import { changeGatewayKey, deleteGatewayKey, gatewayKeysQuery } from "../../../api/gateway.ts";
import { ConfirmAction } from "../../../parts/dialogs.tsx";
import type { ValidKey } from "./form.ts";
import { KeyDialog } from "./key-dialog.tsx";

export type OpenDialog =
  | { readonly at: "create" }
  | { readonly at: "change" | "disable" | "enable" | "revoke"; readonly entry: ValidKey }
  | { readonly at: "delete"; readonly entry: KeyEntry };

export function KeyActionDialog({
  open,
  list: { namespace, keys },
  waiting,
  onClose,
}: {
  readonly open: OpenDialog;
  readonly list: KeyList;
  /** Requests of the key that wait now. */
  readonly waiting: number;
  readonly onClose: () => void;
}) {
  const client = useQueryClient();
  const forget = async (): Promise<void> => {
    await client.invalidateQueries({ queryKey: gatewayKeysQuery.queryKey });
    // What the reader's own key may use may have changed.
    void client.invalidateQueries({ queryKey: ["gateway"] });
  };
  if (open.at === "create")
    return (
      <KeyDialog entry={undefined} firstIn={keys.length === 0 ? namespace : undefined} onClose={onClose} />
    );
  if (open.at === "change") return <KeyDialog entry={open.entry} onClose={onClose} />;
  const { name, state } = open.entry;
  const isLastActive = state === "active" && keys.filter((key) => key.state === "active").length === 1;
  const { word, why, run } = ACTS[open.at];
  const ends = open.at === "revoke" || open.at === "disable";
  return (
    <ConfirmAction
      title={`${word} key ${name}?`}
      act={word}
      look={open.at === "enable" ? "primary" : "danger"}
      run={() => run(name)}
      onDone={forget}
      onClose={onClose}
    >
      <p>{why}</p>
      {ends && waiting > 0 && (
        <p>
          {waiting === 1
            ? "1 request of this key is waiting now."
            : `${waiting} requests of this key are waiting now.`}
        </p>
      )}
      {ends && isLastActive && (
        <p className="toned tone-bad">{`It is the last active key: afterwards the gateway refuses every request until you ${open.at === "disable" ? "enable it, or " : ""}create another one.`}</p>
      )}
      {open.at === "delete" && keys.length === 1 && (
        <p className="toned tone-bad">
          {lastKeyWords(name, namespace)} A revoked key that stays in the cluster keeps the gateway closed.
        </p>
      )}
    </ConfirmAction>
  );
}

const ACTS = {
  disable: {
    word: "Disable",
    why: "Requests with this key are refused at once with 401 until the key is enabled again. Running ones finish.",
    run: (name: string) => changeGatewayKey(name, { isDisabled: true }),
  },
  enable: {
    word: "Enable",
    why: "Requests with this key are accepted again. Its expiry, scope and limits are as before.",
    run: (name: string) => changeGatewayKey(name, { isDisabled: false }),
  },
  revoke: {
    word: "Revoke",
    why: "Requests with this key are refused at once with 401. A revoked key cannot be used again.",
    run: (name: string) => changeGatewayKey(name, { isRevoked: true }),
  },
  delete: {
    word: "Delete",
    why: "The key and its limits are removed from the cluster. Its usage so far stays on record.",
    run: deleteGatewayKey,
  },
} as const;
