/** Asks the scheduler extender as kube-scheduler does, in a process of its own: the heap of the bench would delay the responses. */
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { text } from "node:stream/consumers";

export interface SchedulerJob {
  readonly port: number;
  readonly caFile: string;
  /** The same for filter and prioritize. */
  readonly bodyFile: string;
  /** Pods before the first that is timed. */
  readonly warmUps: number;
  readonly pods: number;
}

const job = JSON.parse(process.argv[2] ?? "") as SchedulerJob;
const agent = new Agent({ keepAlive: true, ca: readFileSync(job.caFile) });
const body = readFileSync(job.bodyFile);
const samples: number[] = [];
let last = "";
for (let index = 0; index < job.warmUps + job.pods; index += 1) {
  const startedMs = performance.now();
  await post("filter");
  last = await post("prioritize");
  if (index >= job.warmUps) samples.push(performance.now() - startedMs);
}
agent.destroy();
const scores = (JSON.parse(last) as { readonly Score: number }[]).map(({ Score }) => Score);
process.stdout.write(JSON.stringify({ samples, scores: [...new Set(scores)] }));

function post(verb: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": body.length };
    const options = { host: "127.0.0.1", port: job.port, path: `/${verb}`, method: "POST", agent, headers };
    request(options, (response) => {
      text(response).then((body) => {
        if (response.statusCode === 200) resolve(body);
        else reject(new Error(`${verb}: ${response.statusCode} ${body}`));
      }, reject);
    })
      .once("error", reject)
      .end(body);
  });
}
