/** What runs on the machine that is left out, and would have to move. */
import type { HostRow } from "../../../../src/console/rows.ts";
import { formatBytes } from "../../parts/format.ts";
import { simulateText } from "../../texts/density.ts";
import { text } from "../../texts/text.ts";

export function Leaving({ host: { name, claims } }: { readonly host: HostRow }) {
  const bytes = claims.reduce((sum, claim) => sum + claim.bytes, 0);
  return (
    <div className="card">
      <p>{simulateText.moves(name, claims.length, formatBytes(bytes))}</p>
      {claims.length > 0 && (
        <ul className="small">
          {claims.map(({ service, replica, bytes: claimed }) => (
            <li key={`${service} ${replica}`}>
              <bdi>{service === "" ? text.memory.hidden : service}</bdi>{" "}
              <span className="muted number">{formatBytes(claimed)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
