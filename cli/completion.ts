/** `metalbridge completion`: prints the completion script for a shell. */

import { Argument, type Command, InvalidArgumentError } from "commander";
import { writeOut } from "./program/output.ts";

/** Options and action of the verb. */
export function configureCompletion(command: Command): void {
  const shells = Object.keys(SCRIPTS);
  command
    .addArgument(
      new Argument("<shell>", "shell that the script is for").choices(shells).argParser(parseShell),
    )
    .action((script: string) => {
      writeOut(script);
    });
}

function parseShell(name: string): string {
  const script = SCRIPTS[name];
  if (script !== undefined) return script;
  throw new InvalidArgumentError(`It must be one of ${Object.keys(SCRIPTS).join(", ")}.`);
}

/** Scripts of the shells, which call `metalbridge __complete`. */
const bash = `# bash completion for metalbridge: source <(metalbridge completion bash)
_metalbridge() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]}" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _metalbridge metalbridge
`;

const zsh = `#compdef metalbridge
# zsh completion for metalbridge: source <(metalbridge completion zsh)
_metalbridge() {
  local -a found
  found=(\${(f)"$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( \${#found} )); then compadd -a found; else _files; fi
}
compdef _metalbridge metalbridge
`;

const fish = `# fish completion for metalbridge: metalbridge completion fish | source
function __metalbridge_complete
  set -l words (commandline -opc)
  $words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c metalbridge -a '(__metalbridge_complete)'
`;

const SCRIPTS: Readonly<Record<string, string>> = { bash, zsh, fish };
