/** Cordon and uncordon of a machine: in numbers what it does, before and after. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { keepNamespace } from "../../address/search.ts";
import type { RightState } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { State } from "../../parts/state.tsx";
import { hostText } from "../../texts/host.ts";

const words = hostText.actions;

interface Running {
  /** Replicas or pods of services on the machine. */
  readonly count: number;
  readonly what: "replica" | "pod";
}

import { Done } from "../../parts/notice.tsx";

export function CordonButton({
  name,
  isCordoned,
  running,
  right,
  isBusy,
  isDone,
  onChange,
}: {
  readonly name: string;
  readonly isCordoned: boolean;
  readonly running: Running;
  readonly right: RightState;
  readonly isBusy: boolean;
  /** The last change was stored. */
  readonly isDone: boolean;
  readonly onChange: (isCordoned: boolean) => void;
}) {
  const [isAsking, setIsAsking] = useState(false);
  return (
    <>
      <Done>{isDone && !isCordoned ? words.uncordoned : ""}</Done>
      <Button
        right={right}
        disabled={isBusy}
        onClick={() => (isCordoned ? onChange(false) : setIsAsking(true))}
      >
        {isCordoned ? words.uncordon : words.cordon}
      </Button>
      <Confirm
        title={words.cordonTitle(name)}
        look="primary"
        isOpen={isAsking}
        onClose={() => setIsAsking(false)}
        act={words.cordon}
        isBusy={isBusy}
        onConfirm={() => {
          onChange(true);
          setIsAsking(false);
        }}
      >
        <p className="prose">
          {words.keeps(running.count, running.what)} {words.cordonNew}
        </p>
        {running.what === "replica" && running.count > 0 && (
          <p className="prose muted">{words.cordonOrDrain}</p>
        )}
      </Confirm>
    </>
  );
}

/** While it is cordoned: what that means here, and which services wait because of it. */
export function CordonNotice({ name, running }: { readonly name: string; readonly running: Running }) {
  const waiting = useList("services").rows.filter(({ attention }) => attention?.cordoned?.includes(name));
  return (
    <div className="card stack" aria-live="polite">
      <State state={{ word: words.cordoned, level: "idle" }} />
      <p className="prose">
        {words.keeps(running.count, running.what)} {words.cordonNew}
      </p>
      {waiting.length > 0 && (
        <p className="prose">
          {words.cordonWaiting}{" "}
          {waiting.map(({ namespace, name: service }) => (
            <Link
              key={`${namespace}/${service}`}
              to={`/services/${namespace}/${service}` as "/"}
              search={keepNamespace}
              className="link"
            >
              {`${namespace}/${service} `}
            </Link>
          ))}
        </p>
      )}
    </div>
  );
}
