"""Prints what the installed vLLM's own parser knows: flags with the values they take, and which of the given command lines it refuses.

Reads a JSON object of command lines from standard input, without `vllm serve`.
"""

import contextlib
import io
import json
import sys

from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.attention.backends.registry import AttentionBackendEnum

parser = make_arg_parser(FlexibleArgumentParser())
flags = {}
for action in parser._actions:
    for name in action.option_strings:
        if name.startswith("--"):
            flags[name] = [str(choice) for choice in action.choices or []]
# The parser takes any text for these two; the engine does not.
flags["--quantization"] = list(QUANTIZATION_METHODS)
flags["--attention-backend"] = [backend.name for backend in AttentionBackendEnum]

refused = {}
for name, line in json.load(sys.stdin).items():
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            validate_parsed_serve_args(parser.parse_args(line))
    except (SystemExit, Exception) as error:
        lines = said.getvalue().strip().splitlines() or [str(error)]
        refused[name] = lines[-1]

print(json.dumps({"flags": flags, "refused": refused}))
