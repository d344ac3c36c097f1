/** The key that the gateway wants. It goes to the server and is kept in the sealed session. */

import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import type { ServiceRow } from "../../../src/console/rows.ts";
import { needsKey, setGatewayKey } from "../api/gateway.ts";
import { ConsoleError } from "../api/request.ts";
import { Button, Command } from "./buttons.tsx";
import { Field } from "./fields.tsx";
import { Empty, Failure } from "./notices.tsx";

/** The server refuses longer ones. */
const MAX_KEY = 1_000;
const KEYS = { tab: "keys" } as never;

/** Asks for a key if none is set, or the gateway refuses the one that is. */
export function GatewayFailure({ error, onRetry }: { readonly error: Error; readonly onRetry: () => void }) {
  if (needsKey(error)) return <GatewayKeyForm refusal={error} onDone={onRetry} />;
  return <Failure error={error} onRetry={onRetry} />;
}

export function GatewayKeyForm({
  refusal,
  onDone,
}: {
  /** The gateway's own words. */
  readonly refusal?: Error;
  readonly onDone: () => void;
}) {
  const client = useQueryClient();
  const [error, setError] = useState<Error>();
  const save = async (key: string): Promise<void> => {
    try {
      await setGatewayKey(key);
      await client.invalidateQueries({ queryKey: ["gateway"] });
      onDone();
    } catch (cause) {
      setError(cause instanceof Error ? cause : new Error(String(cause)));
    }
  };
  // The server refuses nothing but the key.
  const fault = error instanceof ConsoleError && error.status === 400 ? error.message : undefined;
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    void save(String(new FormData(event.currentTarget).get("key")).trim());
  };
  return (
    <form className="card stack gateway-key" onSubmit={submit}>
      <h2>The gateway needs a key</h2>
      {refusal !== undefined && <p className="prose">{refusal.message}</p>}
      <p className="muted prose">
        Paste a key of the gateway. It is kept in your session, sealed, and no page can read it.
      </p>
      <Field
        label="Gateway key"
        help="It begins with mbk_ and was shown once, when the key was created."
        fault={fault}
        isRequired
      >
        {(field) => (
          <input
            {...field}
            name="key"
            type="password"
            autoComplete="off"
            required
            maxLength={MAX_KEY}
            placeholder="mbk_…"
          />
        )}
      </Field>
      <div className="row">
        <Button type="submit" look="primary">
          Use this key
        </Button>
        <Button onClick={() => void save("")}>Remove the key</Button>
      </div>
      <p className="small muted">
        <Link to={"/gateway" as "/"} search={KEYS} className="link">
          Create a key on the page Gateway
        </Link>
        , or in a terminal:
      </p>
      <Command>{"metalbridge key create <name> --all"}</Command>
      {error !== undefined && fault === undefined && <Failure error={error} />}
    </form>
  );
}

export function NoGateway() {
  return (
    <Empty
      title="No gateway is configured"
      why="A gateway gives all models one base URL, with keys, limits and fair queues. Start one, and start the server with its address:"
      command="metalbridge gateway --address 127.0.0.1 --port 4000"
    >
      <Command>metalbridge server --gateway-url http://127.0.0.1:4000</Command>
    </Empty>
  );
}

/** Changes when services come, go, start to serve or stop: the gateway's list is then read again. */
export function versionOf(rows: readonly ServiceRow[]): string {
  return rows
    .map(({ namespace, name, phase }) => `${namespace}/${name} ${phase}`)
    .sort()
    .join();
}
