/** The dialog of each action on a key. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { type KeyEntry, type KeyList, lastKeyWords } from "../../../../../src/gateway/key.ts";
import { changeGatewayKey, deleteGatewayKey, gatewayKeysQuery } from "../../../api/gateway.ts";
import type { ButtonProps } from "../../../parts/button.tsx";
import { Confirm } from "../../../parts/dialog.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { gatewayTexts } from "../../../texts/gateway.ts";
import type { ValidKey } from "./form.ts";
import { KeyDialog } from "./key-dialog.tsx";

const texts = gatewayTexts.keys;

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
  if (open.at === "create")
    return (
      <KeyDialog entry={undefined} firstIn={keys.length === 0 ? namespace : undefined} onClose={onClose} />
    );
  if (open.at === "change") return <KeyDialog entry={open.entry} onClose={onClose} />;
  const { name, state } = open.entry;
  const isLastActive = state === "active" && keys.filter((key) => key.state === "active").length === 1;
  const act = ACTS[open.at];
  const ends = open.at === "revoke" || open.at === "disable";
  return (
    <AskBefore
      title={texts[`${open.at}Title`](name)}
      act={texts[open.at]}
      look={open.at === "enable" ? "primary" : "danger"}
      run={() => act(name)}
      onClose={onClose}
    >
      <p>{texts[`${open.at}Why`]}</p>
      {ends && waiting > 0 && <p>{texts.waiting(waiting)}</p>}
      {ends && isLastActive && <p className="toned tone-bad">{texts.lastActive[open.at]}</p>}
      {open.at === "delete" && keys.length === 1 && (
        <p className="toned tone-bad">
          {lastKeyWords(name, namespace)} {texts.deleteLast}
        </p>
      )}
    </AskBefore>
  );
}

const ACTS: Readonly<Record<"disable" | "enable" | "revoke" | "delete", (name: string) => Promise<void>>> = {
  disable: (name) => changeGatewayKey(name, { isDisabled: true }),
  enable: (name) => changeGatewayKey(name, { isDisabled: false }),
  revoke: (name) => changeGatewayKey(name, { isRevoked: true }),
  delete: deleteGatewayKey,
};

function AskBefore({
  title,
  act,
  look,
  run,
  onClose,
  children,
}: {
  readonly title: string;
  readonly act: string;
  readonly look: ButtonProps["look"];
  readonly run: () => Promise<void>;
  readonly onClose: () => void;
  readonly children: ReactNode;
}) {
  const client = useQueryClient();
  const { mutate, isPending, error } = useMutation({
    mutationFn: run,
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: gatewayKeysQuery.queryKey });
      // What the reader's own key may use may have changed.
      void client.invalidateQueries({ queryKey: ["gateway"] });
      onClose();
    },
  });
  return (
    <Confirm
      title={title}
      isOpen
      onClose={onClose}
      act={act}
      look={look}
      isBusy={isPending}
      onConfirm={() => mutate()}
    >
      {children}
      {error !== null && <Failure error={error} />}
    </Confirm>
  );
}
