import { flagsHelp } from '@nereid/config';
import { EXIT_MEANINGS } from './exit-code.ts';
import type { RunCommand } from './run.ts';

function exitCodes(): string {
  return EXIT_MEANINGS.map(([status, meaning]) => `  ${String(status).padEnd(3)}  ${meaning}`).join('\n');
}

const EXAMPLES = `Examples:
  nereid serve --model-repository=./model_repository
  nereid models check ./model_repository
  nereid serve --model-repository=/models --model-repository=/more --http-port=9000
  nereid serve --model-repository=/models --model-control-mode=explicit --load-model=simple
  nereid gateway --redis-url=redis://10.0.0.5
  nereid coordinator --redis-url=redis://10.0.0.5 --model-repository=/models
  nereid worker --redis-url=redis://10.0.0.5 --model-repository=/models
  NEREID_LOG_OUTPUT=json nereid serve --config nereid.yaml
  nereid sequences ls --url=http://10.0.0.7:8000
  nereid explain my-request-7
  nereid jobs ls --model=simple --state=failed
  nereid replay run --version=2 --atol=1e-6 silero_vad~gw-x2k1:17
  curl localhost:8000/v2/health/ready`;

/** `nereid --help`. */
export function programHelp(): string {
  return `nereid: an inference server that speaks Triton's KServe v2 protocol

A model repository (one folder per model, as for Triton) is served over HTTP at port 8000, with
Prometheus metrics at port 8002. Clients and config.pbtxt files made for Triton work as they are.

Usage: nereid <command> [options]

Commands:
  serve                  Serve one or more model repositories in one process
  gateway                Run the role that takes requests, part of a cluster on one Redis
  coordinator            Run the role that queues requests and forms their batches
  worker                 Run the role that holds models and executes
  models check <folder>  Check the models of a repository without running them
  models ls              List what the repositories of a server hold, with states and reasons
  models load|unload <name>  Load a model, with another config or files too; unload it
  sequences ls           List the sequences that a server keeps
  sequences evict <id>   End one of them, by its session
  aliases ls             List names that stand for versions of models
  aliases set|promote|rollback|rm <name>  Change one: its weights, all to one version, back, none
  jobs ls                List jobs
  jobs show|watch <id>   Tell what is known of a job, or what becomes of it until it is over
  jobs retry|cancel|rm <id>  Run a failed job anew, cancel one, remove one that is over
  deadletters ls         List jobs that failed for good and were set aside
  deadletters show|replay|rm <id>  Tell one, run its job again, forget it
  webhooks show|resend <id>  Tell how far a job's webhook is, or have it sent again
  replay ls              List what the journal has recorded
  replay show|rm <id>    Tell a recording with its steps, or forget it
  replay run <id>        Run it again, on another version too, and compare
  replay diff <a> <b>    Compare two recordings
  replay export <id>, import <file>  Take a recording from one cluster to another
  explain <id>           Tell what became of a request

nereid <command> --help lists the options of a command.

Options:
  --help               Show this text
  --version            Show the version

${EXAMPLES}

Exit codes:
${exitCodes()}
`;
}

const USAGE: Readonly<Record<RunCommand, string>> = {
  serve: `Usage: nereid serve --model-repository=<folder> [options]

Serves every model of the repositories until SIGINT or SIGTERM; requests in flight are then
finished within --exit-timeout-secs. With --redis-url it is part of the cluster on that Redis.`,
  gateway: `Usage: nereid gateway --redis-url=<url> [options]

Takes requests over HTTP for the cluster on that Redis until SIGINT or SIGTERM; requests in flight
are then finished within --exit-timeout-secs. It reads no model repository. Any number may run.`,
  coordinator: `Usage: nereid coordinator --redis-url=<url> --model-repository=<folder> [options]

Owns models of the cluster on that Redis: loads them onto its workers, queues their requests and
forms the batches, until SIGINT or SIGTERM. Any number may run; each model has one at a time.`,
  worker: `Usage: nereid worker --redis-url=<url> --model-repository=<folder> [options]

Holds models of the cluster on that Redis and executes their batches until SIGINT or SIGTERM; those
in flight are then finished within --exit-timeout-secs. Any number may run. It finds the models'
files in its own repositories.`,
};

/** `nereid serve --help` and the like. */
export function runHelp(command: RunCommand): string {
  return `${USAGE[command]}

Write --flag=value or --flag value; a boolean flag alone means true. Each option can also be set by
its environment variable (repeatable ones: values separated by ;) or by its name in the YAML file
of --config. A flag comes before the environment, the environment before the file.

${flagsHelp(command === 'serve' ? undefined : command)}

${EXAMPLES}

Exit codes:
${exitCodes()}
`;
}
