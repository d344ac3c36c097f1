/** The dialog that deploys a model. `choice` is what the address says: `new`, or the name of a catalog model. */
import { Dialog } from "../../parts/dialog.tsx";
import { text } from "../../texts/text.ts";

export function Deploy({ onClose }: { readonly choice: string; readonly onClose: () => void }) {
  return (
    <Dialog title={text.frame.deploy} size="large" isOpen onClose={onClose}>
      <div />
    </Dialog>
  );
}
