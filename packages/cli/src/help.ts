import { flagsHelp } from '@nereid/config';
import { EXIT_MEANINGS } from './exit-code.ts';

function exitCodes(): string {
  return EXIT_MEANINGS.map(([status, meaning]) => `  ${String(status).padEnd(3)}  ${meaning}`).join('\n');
}

const EXAMPLES = `Examples:
  nereid serve --model-repository=./model_repository
  nereid models check ./model_repository
  nereid serve --model-repository=/models --model-repository=/more --http-port=9000
  nereid serve --model-repository=/models --model-control-mode=explicit --load-model=simple
  NEREID_LOG_OUTPUT=json nereid serve --config nereid.yaml
  curl localhost:8000/v2/health/ready`;

/** `nereid --help`. */
export function programHelp(): string {
  return `nereid: an inference server that speaks Triton's KServe v2 protocol

A model repository (one folder per model, as for Triton) is served over HTTP at port 8000, with
Prometheus metrics at port 8002. Clients and config.pbtxt files made for Triton work as they are.

Usage: nereid <command> [options]

Commands:
  serve                  Serve one or more model repositories (nereid serve --help lists its options)
  models check <folder>  Check the models of a repository without running them

Options:
  --help               Show this text
  --version            Show the version

${EXAMPLES}

Exit codes:
${exitCodes()}
`;
}

/** `nereid serve --help`. */
export function serveHelp(): string {
  return `Usage: nereid serve --model-repository=<folder> [options]

Serves every model of the repositories until SIGINT or SIGTERM; requests in flight are then
finished within --exit-timeout-secs.

Write --flag=value or --flag value; a boolean flag alone means true. Each option can also be set by
its environment variable (repeatable ones: values separated by ;) or by its name in the YAML file
of --config. A flag comes before the environment, the environment before the file.

${flagsHelp()}

${EXAMPLES}

Exit codes:
${exitCodes()}
`;
}
