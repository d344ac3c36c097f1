/** The skill as a SkillPack of Sympozium: its pages, the sidecar that runs its commands, and the rights of the sidecar. */
import { readdirSync, readFileSync } from "node:fs";
import { stringify } from "yaml";
import { READING_COMMANDS } from "../../cli/skill-sidecar/request.ts";
import { GROUP } from "../../src/api/group.ts";
import { MANIFEST_YAML } from "../../src/kube/manifest-yaml.ts";
import { IMAGE_CONFIG } from "../images/ours.ts";
import { readProject } from "../project/project.ts";
import { root } from "../project/root.ts";

const NAME = "metalbridge";
const FOLDER = `${root}/skills/${NAME}`;
const HEADER = "# Generated from the pages of this folder by npm run generate. Do not edit.\n";
const READ = ["get", "list"];

/** Texts keep their lines as they are. */
const SKILL_YAML = { ...MANIFEST_YAML, lineWidth: 0, aliasDuplicateObjects: false } as const;

export function renderSkillPack(): string {
  const { version, image } = readProject(root);
  return (
    HEADER +
    stringify(
      {
        apiVersion: "sympozium.ai/v1alpha1",
        kind: "SkillPack",
        metadata: {
          name: NAME,
          namespace: "sympozium-system",
          labels: { "app.kubernetes.io/name": NAME },
        },
        spec: {
          category: "sre",
          source: "custom",
          version,
          skills: skills(),
          runtimeRequirements: { minMemory: "512Mi", minCPU: "250m" },
          sidecar: {
            image: `${image}:${version}`,
            command: [...IMAGE_CONFIG.Entrypoint, "skill-sidecar"],
            mountWorkspace: true,
            resources: { cpu: "250m", memory: "512Mi" },
            clusterRBAC: [
              rule(GROUP, ["hosts", "models", "inferenceservices", "inferencereplicas"], READ),
              rule("", ["nodes"], READ),
              rule("apps", ["controllerrevisions"], READ),
              // To see that a controller leads.
              rule("coordination.k8s.io", ["leases"], ["get"]),
            ],
          },
        },
      },
      SKILL_YAML,
    )
  );
}

/** SKILL.md and its references, which Sympozium mounts beside each other as NAME.md. */
function skills(): readonly object[] {
  const [front = "", name = "", description = ""] =
    /^---\nname: (.*)\ndescription: (.*)\n---\n/.exec(page("SKILL.md")) ?? [];
  const requires = { bins: [NAME], tools: ["execute_command"] };
  const main = page("SKILL.md").slice(front.length).trim();
  const references = readdirSync(`${FOLDER}/references`).sort();
  return [
    { name, description, requires, content: `${main}\n\n${PREAMBLE}` },
    ...references.map((file) => ({
      name: `${NAME}-${file.replace(/\.md$/, "")}`,
      content: page(`references/${file}`).trim(),
    })),
  ].map((skill) => ({ ...skill, content: `${skill.content.replaceAll(LINK, `](${NAME}-$1.md`)}\n` }));
}

const LINK = /\]\((?:references\/)?([a-z-]+)\.md/g;

const PREAMBLE = `## Commands in this pod

Run them with \`execute_command\` and the target \`${NAME}\`. There is no shell: one command, without pipes. Only these run, because the sidecar may only read: ${Object.keys(
  READING_COMMANDS,
)
  .map((one) => `\`${NAME} ${one}\``)
  .join(", ")}. Print every other command for the user.`;

function page(file: string): string {
  return readFileSync(`${FOLDER}/${file}`, "utf8");
}

function rule(group: string, resources: readonly string[], verbs: readonly string[]) {
  return { apiGroups: [group], resources, verbs };
}
