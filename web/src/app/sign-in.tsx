/** Sign-in, over the page: what the reader was doing stays. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useRef, useState } from "react";
import type { SignIn as SignInAnswer } from "../../../src/console/protocol.ts";
import { ConsoleError, onSignedOut } from "../api/request.ts";
import { sessionQuery, signIn } from "../api/session.ts";
import { useLink, useLive } from "../live/hooks.ts";
import { Button, Command, WithCommands } from "../parts/buttons.tsx";
import { Dialog } from "../parts/dialogs.tsx";
import { Failure } from "../parts/notices.tsx";

/** In the fragment, which browsers never send to a server. */
const CODE = /^#code=([A-Za-z0-9_-]{16,128})$/;
const FAILED = /^#sign-in-failed=([A-Za-z]{1,64})$/;

export function SignIn() {
  const live = useLive();
  const link = useLink();
  const client = useQueryClient();
  const { data, error, refetch } = useQuery(sessionQuery);
  const [failure, setFailure] = useState<Error>();
  useEffect(() => onSignedOut(() => void client.invalidateQueries({ queryKey: ["session"] })), [client]);
  useEffect(() => {
    if (link.at !== "signed-out") return;
    // The session may have been renewed meanwhile, or replaced in another tab.
    void refetch().then(({ isSuccess }) => isSuccess && live.reconnect());
  }, [link.at, refetch, live]);
  const needsSignIn = error instanceof ConsoleError && error.status === 401;
  useForgetPreviousReader(data?.user);
  useContinue(needsSignIn);
  const enter = async (by: Parameters<typeof signIn>[0]): Promise<void> => {
    try {
      await signIn(by);
      setFailure(undefined);
      await client.invalidateQueries({ queryKey: ["session"] });
      // An earlier session may still be open.
      live.reconnect();
    } catch (cause) {
      setFailure(cause instanceof Error ? cause : new Error(String(cause)));
    }
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, with the address that the page was opened with
  useEffect(() => {
    const code = CODE.exec(location.hash)?.[1];
    const refused = FAILED.exec(location.hash)?.[1];
    if (code === undefined && refused === undefined) return;
    history.replaceState(null, "", location.pathname + location.search);
    if (code !== undefined) void enter({ code });
    if (refused !== undefined)
      setFailure(
        new ConsoleError(
          refused,
          "The identity provider did not sign you in. Try again; if it fails again, show the code to an administrator.",
        ),
      );
  }, []);
  if (!needsSignIn) return null;
  const by = (error.answer as SignInAnswer | undefined)?.by ?? "token";
  return (
    <Dialog
      title="Sign in"
      description={
        <WithCommands
          text={
            data === undefined
              ? error.message
              : "Your session has expired. Sign in again to continue; this page stays as it is."
          }
        />
      }
      isOpen
    >
      {failure !== undefined && <Failure error={failure} />}
      {by === "token" && <TokenForm onSubmit={(token) => void enter({ token })} />}
      {by === "oidc" && <ProviderLink keepsPage={data !== undefined} />}
      {by === "code" && (
        <p className="prose">
          <WithCommands text="Open the address that `metalbridge console` printed in your terminal. It signs you in with your kubeconfig." />
        </p>
      )}
    </Dialog>
  );
}

/** This page may hold text that is not saved: it stays, and the provider opens beside it. */
function ProviderLink({ keepsPage }: { readonly keepsPage: boolean }) {
  return (
    <>
      <a
        className="button button-primary"
        href={`/console/sign-in?back=${encodeURIComponent(location.pathname + location.search)}`}
        target={keepsPage ? "_blank" : undefined}
      >
        Sign in with your organization
      </a>
      {keepsPage && <p className="prose muted">It opens in another tab. Come back to this one afterwards.</p>}
    </>
  );
}

/** After a sign-in in another tab, which this one notices when it is shown again. */
function useContinue(needsSignIn: boolean): void {
  const live = useLive();
  const client = useQueryClient();
  const wasNeeded = useRef(false);
  useEffect(() => {
    if (wasNeeded.current && !needsSignIn) {
      void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });
      live.reconnect();
    }
    wasNeeded.current = needsSignIn;
  }, [needsSignIn, live, client]);
}

/** The next reader in this tab must not see what the previous one has read or typed: all of it goes with the document. */
function useForgetPreviousReader(user: string | undefined): void {
  const live = useLive();
  const previous = useRef<string>(undefined);
  useEffect(() => {
    if (user === undefined) return;
    if (previous.current !== undefined && previous.current !== user) {
      // The worker outlives the document if another tab is open.
      live.forget();
      // An edit of the previous reader must not ask to be kept.
      addEventListener("beforeunload", (event) => event.stopImmediatePropagation(), { capture: true });
      location.reload();
    }
    previous.current = user;
  }, [user, live]);
}

function TokenForm({ onSubmit }: { readonly onSubmit: (token: string) => void }) {
  const [token, setToken] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (token.trim() !== "") onSubmit(token.trim());
  };
  return (
    <form className="stack" onSubmit={submit}>
      <label className="field">
        <span>Token of a Kubernetes user or ServiceAccount</span>
        <input
          type="password"
          autoComplete="off"
          spellCheck={false}
          value={token}
          onChange={({ target }) => setToken(target.value)}
        />
      </label>
      <p className="small muted">Create one that is valid for a day:</p>
      <Command>{"kubectl create token <serviceaccount> -n <namespace> --duration=24h"}</Command>
      <Button type="submit" look="primary" disabled={token.trim() === ""}>
        Sign in
      </Button>
    </form>
  );
}
