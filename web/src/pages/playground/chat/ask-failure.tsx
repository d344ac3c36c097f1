/** Why there is no answer, or no whole one, and the way to the next. */
import { needsKey } from "../../../api/gateway.ts";
import { GatewayKeyForm } from "../../../parts/gateway-key-form.tsx";
import { Failure } from "../../../parts/notice.tsx";

export function AskFailure({ error, onRetry }: { readonly error: Error; readonly onRetry: () => void }) {
  if (needsKey(error)) return <GatewayKeyForm refusal={error} onDone={onRetry} />;
  return <Failure error={error} onRetry={onRetry} />;
}
